"""Typed values of a YAML document, with an error and its place for each invalid value.

No message repeats a value of the file, which may be a secret.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from apps.platform_settings.domain.wire import ENCRYPTED, MAX_PLACES
from kernel.encryption import Undecryptable, decrypt
from kernel.errors import FieldError
from readers.yaml import Node

UNDECRYPTABLE: Final = "undecryptable"  # the code of such an error
VARIABLE: Final = re.compile(r"\$\{(PARTITA_CONFIG_[A-Za-z0-9_]+)\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What the meaning of a document depends on beside its text.

    `variables` are the PARTITA_CONFIG_… of the environment, `keys` those of encrypted texts, the
    newest first. `in_cluster` means that this process runs in a pod, whose service account a
    kubernetes backend may use.
    """

    variables: Mapping[str, str] = field(default_factory=dict, repr=False)
    keys: Sequence[str] = field(default=(), repr=False)
    in_cluster: bool = False


class Fields:
    """Reads the keys of mappings. Errors go to `faults`, and an invalid value reads as its default.

    A text `${PARTITA_CONFIG_X}` is replaced from the variables. `file` is empty for a document
    that came otherwise.
    """

    def __init__(self, file: str, surroundings: Surroundings) -> None:
        self.in_cluster = surroundings.in_cluster
        self._file = file or None
        self._variables = surroundings.variables
        self._keys = surroundings.keys
        self.faults: list[FieldError] = []

    def refuse(self, node: Node, pointer: str, code: str, detail: str) -> None:
        self.faults.append(
            FieldError(
                pointer=pointer,
                code=code,
                detail=detail,
                file=self._file,
                line=node.line or None,
                column=node.column or None,
            )
        )

    def refuse_value(
        self, mapping: Node, pointer: str, key: str, detail: str, code: str = "invalid_value"
    ) -> None:
        """Add an error at the value of a key, or at the mapping that does not have it."""
        self.refuse(mapping.get(key) or mapping, f"{pointer}/{key}", code, f"{key} {detail}")

    def known_keys(self, mapping: Node, pointer: str, known: Collection[str]) -> bool:
        """Check the type and the keys of a mapping; return whether it is a mapping."""
        if mapping.pairs is None:
            self.refuse(mapping, pointer, "wrong_type", f"{_name(pointer)} must be a mapping")
            return False
        for key, _value in mapping.pairs:
            if key.text not in known:
                detail = f'"{(key.text or "")[:80]}" is not a known key'
                self.refuse(key, f"{pointer}/{key.text}", "unknown_field", detail)
        return True

    def entries(self, mapping: Node, pointer: str, key: str) -> Iterator[tuple[Node, str]]:
        """Yield each entry of a list with its pointer."""
        node, pointer = mapping.get(key), f"{pointer}/{key}"
        if node is None or node.is_null:
            return
        if node.items is None:
            self.refuse(node, pointer, "wrong_type", f"{key} must be a list")
            return
        for index, entry in enumerate(node.items):
            yield entry, f"{pointer}/{index}"

    def text(self, mapping: Node, pointer: str, key: str) -> str:
        """Return the trimmed text, empty when it is not set."""
        node = mapping.get(key)
        return "" if node is None else self._text(node, f"{pointer}/{key}")

    def secret(self, mapping: Node, pointer: str, key: str) -> str:
        """Return a text that may be encrypted."""
        text = self.text(mapping, pointer, key)
        if not text.startswith(ENCRYPTED):
            return text
        try:
            return decrypt(text.removeprefix(ENCRYPTED), self._keys)
        except Undecryptable:
            detail = "was encrypted with a key that this installation does not have"
            self.refuse_value(mapping, pointer, key, detail, UNDECRYPTABLE)
            return ""

    def require_text(self, mapping: Node, pointer: str, key: str) -> str:
        text = self.text(mapping, pointer, key)
        if not text:
            self.refuse_value(mapping, pointer, key, "is required", "required")
        return text

    def texts(self, mapping: Node, pointer: str, key: str) -> tuple[str, ...]:
        """Return the list without its blank entries."""
        entries = self.entries(mapping, pointer, key)
        return tuple(text for entry, at in entries if (text := self._text(entry, at)))

    def flag(self, mapping: Node, pointer: str, key: str, *, default: bool) -> bool:
        node = mapping.get(key)
        if node is None or node.is_null:
            return default
        if node.text is None or not isinstance(value := node.scalar(), bool):
            self.refuse_value(mapping, pointer, key, "must be true or false", "wrong_type")
            return default
        return value

    def whole(
        self, mapping: Node, pointer: str, key: str, *, default: int, low: int, high: int
    ) -> int:
        node = mapping.get(key)
        if node is None or node.is_null:
            return default
        value = None if node.text is None else node.scalar()
        if isinstance(value, bool) or not isinstance(value, int):
            self.refuse_value(mapping, pointer, key, "must be a whole number", "wrong_type")
            return default
        if not low <= value <= high:
            self.refuse_value(mapping, pointer, key, f"must be from {low} to {high}")
            return default
        return value

    def place_limit(self, mapping: Node, pointer: str, key: str) -> int:
        """Return how many at once; 0, also for a key that is not set, is any number."""
        return self.whole(mapping, pointer, key, default=0, low=0, high=MAX_PLACES)

    def _text(self, node: Node, pointer: str) -> str:
        value = None if node.text is None else node.scalar()
        if node.text is not None and value is None:
            return ""
        if not isinstance(value, str):
            self.refuse(node, pointer, "wrong_type", f"{_name(pointer)} must be a string")
            return ""
        if (named := VARIABLE.fullmatch(value.strip())) is None:
            return value.strip()
        if named[1] not in self._variables:
            self.refuse(node, pointer, "invalid_value", f"{named[1]} is not in the environment")
        return self._variables.get(named[1], "").strip()


def _name(pointer: str) -> str:
    return pointer.rpartition("/")[2] or "the document"
