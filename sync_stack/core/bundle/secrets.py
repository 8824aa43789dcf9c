"""References to secrets: a text in the bundle, or a map that says where the secret is."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Final

from readers.tree import Kind
from sync_stack.core.bundle.diagnostics import LocatedValue, Location
from sync_stack.core.bundle.values import ValueType, expect

PEM: Final = "-----BEGIN"
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SEGMENT: Final = re.compile(r"[A-Za-z0-9._@:+=,~ -]{1,128}")
_EXPECTED: Final = 'expected a text, or one of {value}, {env}, {file}, {ref: "path#key"}'


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretRef:
    """Exactly one of `value`, `env`, `file`, or `path` with `key` is set.

    `manager`: the name of the secret manager that holds `path`#`key`. Never log `value`.
    `masked` is False for a user name or the path of a key: they are written like secrets.
    """

    value: str = field(default="", repr=False)
    env: str = ""
    file: str = ""
    path: str = ""
    key: str = ""
    manager: str = ""
    masked: bool = True
    location: Location = field(default=Location(), compare=False, repr=False)

    @property
    def is_managed(self) -> bool:
        return bool(self.path)

    def __str__(self) -> str:
        """Name what it refers to; never the secret itself."""
        if self.path:
            return f"{self.manager}:{self.path}#{self.key}"
        if self.env or self.file:
            return f"env {self.env}" if self.env else f"file {self.file}"
        return "***"


def read_secret(located: LocatedValue) -> SecretRef:
    """Return a reference without its manager; raise InvalidValue: `bad_secret`."""
    if located.kind is Kind.STRING:
        return _plain(located)
    expect(located, "a text or a map", Kind.MAP)
    form, member = next(located.members(), ("", located))
    if len(located.tree.pairs) != 1 or form not in ("value", "env", "file", "ref"):
        found = ", ".join(located.tree.pairs)[:60] or "nothing"
        raise located.error("bad_secret", f"{_EXPECTED}, found {found}")
    if form == "value":
        return _plain(member)
    if form == "ref":
        return _read_reference(member, located.location)
    text = member.text if member.kind is Kind.STRING else ""
    if form == "env" and not _VARIABLE.fullmatch(text):
        raise member.error("bad_secret", "expected the name of an environment variable")
    if form == "file" and (not text or "\0" in text):
        raise member.error("bad_secret", "expected the path of a file")
    return SecretRef(**{form: text}, location=located.location)  # type: ignore[arg-type]


def read_user_name(located: LocatedValue) -> SecretRef:
    """Read a reference that is not masked, else every text that holds the word would be."""
    return replace(read_secret(located), masked=False)


def read_private_key(located: LocatedValue) -> SecretRef:
    """Read a reference; plain text that is not PEM is the path of the key, which is no secret."""
    made = read_secret(located)
    return replace(made, masked=False) if made.value and PEM not in made.value else made


def _plain(located: LocatedValue) -> SecretRef:
    if not expect(located, "text", Kind.STRING).strip():
        raise located.error("bad_secret", "an empty text is not a secret")
    return SecretRef(value=located.text, location=located.location)


def _read_reference(located: LocatedValue, location: Location) -> SecretRef:
    if located.kind is Kind.STRING:
        path, _sign, key = located.text.rpartition("#")
    else:
        expect(located, 'text "path#key" or {path, key}', Kind.MAP)
        texts = {name: each.text for name, each in located.members() if each.kind is Kind.STRING}
        path, key = texts.get("path", ""), texts.get("key", "")
        if set(located.tree.pairs) - {"path", "key"}:
            path = ""
    if not key or not is_safe_path(path.strip("/")):
        raise located.error("bad_secret", 'expected {path, key} or "path#key", without ".."')
    return SecretRef(path=path.strip("/"), key=key, location=location)


def is_safe_path(path: str) -> bool:
    """Check a path in a secret manager: plain segments can neither climb nor be a query."""
    return all(_SEGMENT.fullmatch(part) and set(part) != {"."} for part in path.split("/"))


SECRET: Final = ValueType("SecretRef", read_secret)
PRIVATE_KEY: Final = ValueType("SecretRef", read_private_key)
USER_NAME: Final = ValueType("SecretRef", read_user_name)
