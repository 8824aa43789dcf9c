"""Typed values of a settings document, with an error and its place for each invalid value.

No message repeats a value of the file, which may be a secret.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from apps.platform_settings.domain.keys import ENCRYPTED, Key, KeyGroup, known_names
from kernel.encryption import Undecryptable, decrypt
from kernel.errors import FieldError
from readers.diagnostics import likely_name
from readers.yaml import Node

Values = dict[str, Any]
UNDECRYPTABLE: Final = "undecryptable"  # the code of such an error
VARIABLE: Final = re.compile(r"\$\{(PARTITA_CONFIG_[A-Za-z0-9_]+)\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsContext:
    """What the meaning of a document depends on beside its text.

    `variables` are the PARTITA_CONFIG_… of the environment, `keys` those of encrypted texts, the
    newest first. `in_cluster` means that this process runs in a pod, whose service account a
    kubernetes backend may use.
    """

    variables: Mapping[str, str] = field(default_factory=dict, repr=False)
    keys: Sequence[str] = field(default=(), repr=False)
    in_cluster: bool = False


@dataclass(frozen=True, slots=True)
class DocumentEntry:
    """A mapping of the document: where it stands, and its values by key."""

    node: Node
    pointer: str
    keys: tuple[Key, ...]
    values: Values

    @property
    def attributes(self) -> Values:
        """The values by the attributes that the keys have in Python."""
        return {key.attribute: self.values[key.name] for key in self.keys if key.attribute}


class Fields:
    """Reads the groups of keys. Errors go to `faults`, and an invalid value reads as its default.

    A text `${PARTITA_CONFIG_X}` is replaced from the variables. `file` is empty for a document
    that came otherwise.
    """

    def __init__(self, root: Node, file: str, context: SettingsContext) -> None:
        self.in_cluster = context.in_cluster
        self._root = root
        self._file = file or None
        self._variables = context.variables
        self._keys = context.keys
        self._mappings: dict[tuple[str, ...], Node | None] = {}
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

    def entry(self, group: KeyGroup) -> DocumentEntry | None:
        """Return the one mapping of a group, or None where the document does not have it."""
        mapping = self.mapping(group.path)
        return self._entry(group, mapping, group.pointer) if mapping else None

    def entries(self, group: KeyGroup) -> Iterator[DocumentEntry]:
        """Yield each entry of a list; that two have one identity is an error."""
        above, seen = self.mapping(group.path[:-1]), set()
        for node, pointer in self._items(above, group.path[-1], group.pointer):
            if not self._is_known(node, pointer, {key.name for key in group.keys}):
                continue
            entry = self._entry(group, node, pointer)
            identity = entry.values[group.identity]
            identity = identity.lower() if group.folds_case else identity
            if identity in seen:
                detail = f"{group.identity} is used twice"
                self.refuse(node, f"{pointer}/{group.identity}", "duplicate", detail)
            seen.add(identity)
            yield entry

    def mapping(self, path: tuple[str, ...]) -> Node | None:
        """Return the mapping at a path, whose type and keys are checked once; None without one."""
        if path not in self._mappings:
            self._mappings[path] = self._find_mapping(path)
        return self._mappings[path]

    def _find_mapping(self, path: tuple[str, ...]) -> Node | None:
        above = self.mapping(path[:-1]) if path else None
        node = above.get(path[-1]) if above else None if path else self._root
        pointer = "".join(f"/{part}" for part in path)
        if node is None or node.is_null or not self._is_known(node, pointer, known_names(path)):
            return None
        return node

    def _is_known(self, mapping: Node, pointer: str, known: Collection[str]) -> bool:
        """Check the type and the keys of a mapping; return whether it is a mapping."""
        if mapping.pairs is None:
            self.refuse(mapping, pointer, "wrong_type", f"{_name(pointer)} must be a mapping")
            return False
        for key, _value in mapping.pairs:
            if key.text not in known:
                name = (key.text or "")[:80]
                detail = f'"{name}" is not a known key{likely_name(name, sorted(known))}'
                self.refuse(key, f"{pointer}/{key.text}", "unknown_field", detail)
        return True

    def _entry(self, group: KeyGroup, node: Node, pointer: str) -> DocumentEntry:
        entry = DocumentEntry(node, pointer, group.settable, {})
        for key in sorted(group.settable, key=lambda each: bool(each.hidden_by)):
            entry.values[key.name] = self._value(key, entry)
        return entry

    def _value(self, key: Key, entry: DocumentEntry) -> object:
        node, pointer = entry.node, entry.pointer
        if isinstance(key.default, tuple):
            items = self._items(node, key.name, f"{pointer}/{key.name}")
            return tuple(text for each, at in items if (text := self._item(key, each, at)))
        if isinstance(key.default, bool):
            return self._flag(key, node, pointer)
        if isinstance(key.default, int):
            return self._number(key, node, pointer)
        text = self.text(node, pointer, key.name)
        if key.secret or entry.values.get(key.hidden_by):
            return self._secret(key, node, pointer, text)
        if key.required and not text:
            self.refuse_value(node, pointer, key.name, "is required", "required")
        text = text or str(key.default)
        text = key.aliases.get(text, text)
        if text and key.check and (rule := key.check(text)):
            self.refuse_value(node, pointer, key.name, rule)
        return key.read(text)

    def text(self, mapping: Node, pointer: str, key: str) -> str:
        """Return the trimmed text, empty when it is not set."""
        node = mapping.get(key)
        return "" if node is None else self._text(node, f"{pointer}/{key}")

    def _items(self, mapping: Node | None, name: str, pointer: str) -> Iterator[tuple[Node, str]]:
        """Yield each item of a list with its pointer."""
        node = mapping.get(name) if mapping else None
        if node is None or node.is_null:
            return
        if node.items is None:
            self.refuse(node, pointer, "wrong_type", f"{name} must be a list")
            return
        for index, entry in enumerate(node.items):
            yield entry, f"{pointer}/{index}"

    def _item(self, key: Key, node: Node, pointer: str) -> str:
        """Return a text of a list, also where it breaks the key's rule, as an empty one may."""
        before = len(self.faults)
        text = self._text(node, pointer)
        is_read = len(self.faults) == before
        if is_read and key.check_item and (rule := key.check_item(text)):
            self.refuse(node, pointer, "invalid_value", f"{key.name} {rule}")
        return text

    def _secret(self, key: Key, mapping: Node, pointer: str, text: str) -> str:
        """Return a text that may be encrypted."""
        if not text.startswith(ENCRYPTED):
            return text
        try:
            return decrypt(text.removeprefix(ENCRYPTED), self._keys)
        except Undecryptable:
            detail = "was encrypted with a key that this installation does not have"
            self.refuse_value(mapping, pointer, key.name, detail, UNDECRYPTABLE)
            return ""

    def _flag(self, key: Key, mapping: Node, pointer: str) -> bool:
        node = mapping.get(key.name)
        if node is None or node.is_null:
            return bool(key.default)
        if node.text is None or not isinstance(value := node.scalar(), bool):
            self.refuse_value(mapping, pointer, key.name, "must be true or false", "wrong_type")
            return bool(key.default)
        return value

    def _number(self, key: Key, mapping: Node, pointer: str) -> object:
        node = mapping.get(key.name)
        if node is None or node.is_null:
            return key.default
        value = None if node.text is None else node.scalar()
        if isinstance(value, bool) or not isinstance(value, int):
            self.refuse_value(mapping, pointer, key.name, "must be a whole number", "wrong_type")
            return key.default
        if not key.low <= value <= key.high:
            detail = f"must be from {key.low} to {key.high}"
            self.refuse_value(mapping, pointer, key.name, detail)
            return key.default
        return value

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
