"""References to secrets: their source, their path, and the value among the fields. Pure.

(reference: control-plane 10)
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

Source = Literal["local", "vault", "aws"]
_OWN: Final = ("local", "secrets")
_AWS: Final = "aws-secrets-manager"
_VAULT_SCHEME: Final = "vault://"


class NoSuchValue(Exception):
    """The secret has no value of that name; the message repeats no value."""


@dataclass(frozen=True, slots=True)
class SecretPath:
    """The path of a secret with the prefix, and the name of its field, or empty."""

    path: str
    field: str = ""


def source_of(provider: str, ref: str) -> Source | None:
    """Return the source of the secret, or None for an unknown provider."""
    if provider in _OWN:
        return "local"
    if provider == _AWS:
        return "aws"
    return "vault" if "vault" in provider or ref.startswith(_VAULT_SCHEME) else None


def reference_problem(provider: str, ref: str) -> str:
    """Return why a reference cannot work, whatever the secret managers have; "" if it can."""
    if source_of(provider, ref) is None:
        return f"unknown secret provider {provider[:80]!r}"
    try:
        secret_path(ref)
    except NoSuchValue as error:
        return str(error)
    return ""


def secret_path(ref: str, *, prefix: str = "") -> SecretPath:
    """Return the path; raise NoSuchValue for one that could lead out of the prefix."""
    path, _, field = ref.removeprefix(_VAULT_SCHEME).partition("#")
    if any(part in ("", ".", "..") for part in path.split("/")):
        raise NoSuchValue("the path contains an empty part, . or ..")
    return SecretPath("/".join(filter(None, (prefix.strip("/"), path))), field)


def field_of(fields: Mapping[str, Any], name: str) -> str:
    """Return the named field, else the only one, else `value`; raise NoSuchValue."""
    if not name:
        name = next(iter(fields)) if len(fields) == 1 else "value"
    if name not in fields:
        raise NoSuchValue(f"the secret has no field {name!r}")
    return _text(fields[name], name)


def field_of_json(text: str, name: str) -> str:
    """Return the whole text, or with a name this key of the JSON object; raise NoSuchValue."""
    if not name:
        return text
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError):
        fields = None
    if not isinstance(fields, dict):
        raise NoSuchValue("the secret is not a JSON object")
    return field_of(fields, name)


def _text(value: Any, name: str) -> str:
    if isinstance(value, str) and value:
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    raise NoSuchValue(f"the field {name!r} is empty or not text")
