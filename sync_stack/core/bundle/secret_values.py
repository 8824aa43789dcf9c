"""Secrets as the bundle writes them: a text, or a map that says where the secret is."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, Final

from readers.tree import Kind
from sync_stack.core.bundle.diagnostics import Diagnostics, LocatedValue
from sync_stack.core.bundle.secret_refs import SecretRef
from sync_stack.core.bundle.values import INVALID, Anything, expect

PEM: Final = "-----BEGIN"
WORDS: Final = "SecretRef"
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SEGMENT: Final = re.compile(r"[A-Za-z0-9._@:+=,~ -]{1,128}")
_EXPECTED: Final = 'expected a text, or one of {value}, {env}, {file}, {ref: "path#key"}'


def read_secret(spot: LocatedValue, findings: Diagnostics) -> Any:
    """A SecretRef without its manager, which `bound` adds; INVALID after an error `bad_secret`."""
    if spot.kind is Kind.STRING:
        return _plain(spot, findings)
    if not expect(spot, findings, "a text or a map", Kind.MAP):
        return INVALID
    forms = [name for name, _member in spot.members()]
    if len(forms) != 1 or forms[0] not in _READERS:
        return _refused(spot, findings, f"{_EXPECTED}, found {', '.join(forms)[:60] or 'nothing'}")
    member = spot.at(forms[0])
    return _READERS[forms[0]](member, spot, findings)


def read_user_name(spot: LocatedValue, findings: Diagnostics) -> Any:
    """As `read_secret`; the value is not masked, else every text that holds the word would be."""
    made = read_secret(spot, findings)
    return made if made is INVALID else replace(made, masked=False)


def read_private_key(spot: LocatedValue, findings: Diagnostics) -> Any:
    """As `read_secret`; plain text that is not PEM is the path of the key, which is no secret."""
    made = read_secret(spot, findings)
    if isinstance(made, SecretRef) and made.value and PEM not in made.value:
        return replace(made, masked=False)
    return made


def _value(member: LocatedValue, _spot: LocatedValue, findings: Diagnostics) -> Any:
    return _plain(member, findings) if expect(member, findings, "text", Kind.STRING) else INVALID


def _plain(spot: LocatedValue, findings: Diagnostics) -> Any:
    if not spot.text.strip():
        return _refused(spot, findings, "an empty text is no secret")
    return SecretRef(value=spot.text, place=spot.place)


def _env(member: LocatedValue, spot: LocatedValue, findings: Diagnostics) -> Any:
    if member.kind is not Kind.STRING or not _VARIABLE.fullmatch(member.text):
        return _refused(member, findings, "expected the name of an environment variable")
    return SecretRef(env=member.text, place=spot.place)


def _file(member: LocatedValue, spot: LocatedValue, findings: Diagnostics) -> Any:
    if member.kind is not Kind.STRING or not member.text or "\0" in member.text:
        return _refused(member, findings, "expected the path of a file")
    return SecretRef(file=member.text, place=spot.place)


def _managed(member: LocatedValue, spot: LocatedValue, findings: Diagnostics) -> Any:
    if member.kind is Kind.STRING:
        path, _sign, key = member.text.rpartition("#")
    elif expect(member, findings, 'text "path#key" or {path, key}', Kind.MAP):
        path, key = _text_of(member, "path"), _text_of(member, "key")
        if set(member.tree.pairs) - {"path", "key"}:
            path = ""
    else:
        return INVALID
    if not key or not is_safe_path(path.strip("/")):
        return _refused(member, findings, 'expected {path, key} or "path#key", without ".."')
    return SecretRef(path=path.strip("/"), key=key, place=spot.place)


def is_safe_path(path: str) -> bool:
    """A path in a secret manager: plain segments, so that it can neither climb nor be a query."""
    return all(_SEGMENT.fullmatch(part) and set(part) != {"."} for part in path.split("/"))


def _text_of(spot: LocatedValue, name: str) -> str:
    member = spot.member(name)
    return member.text if member and member.kind is Kind.STRING else ""


def _refused(spot: LocatedValue, findings: Diagnostics, message: str) -> Any:
    findings.error(spot, "bad_secret", message)
    return INVALID


def bound(value: Any, manager: str) -> Any:
    """The value, with every SecretRef to a manager in it naming this one."""
    if isinstance(value, SecretRef) and value.is_managed:
        return replace(value, manager=manager)
    return value


_READERS: Final = {"value": _value, "env": _env, "file": _file, "ref": _managed}
SECRET: Final = Anything(WORDS, read_secret)
PRIVATE_KEY: Final = Anything(WORDS, read_private_key)
USER_NAME: Final = Anything(WORDS, read_user_name)
