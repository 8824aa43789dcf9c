"""The values of `partita.json`, checked one by one."""

from __future__ import annotations

import re
from typing import Any, Final

MAX_ENTRIES: Final = 1000
_ENVIRONMENT: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_FORMS: Final = ("from", "literal")


class WrongType(ValueError):
    """A member that is not what it must be; the message names it and shows no value."""


def boolean(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise WrongType(f"{name} is true or false")
    return value


def text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise WrongType(f"{name} is a text")
    return value


def path(name: str, value: Any) -> str:
    """A path inside the repository: relative, no `..`, no back-slash, no control characters."""
    given = text(name, value)
    segments = given.split("/")
    if not given.isprintable() or "\\" in given or {"", ".", ".."} & set(segments):
        raise WrongType(f"{name} names a path inside the repository, without `..`")
    return given


def environment(name: str, value: Any) -> str:
    if not isinstance(value, str) or not _ENVIRONMENT.fullmatch(value):
        raise WrongType(f"{name} names environments of letters, digits, `.`, `_` and `-`")
    return value


def environments(name: str, value: Any) -> dict[str, str]:
    """A map of non-empty text to environments."""
    return {key: environment(name, env) for key, env in _map(name, value).items()}


def variables(name: str, value: Any) -> dict[str, tuple[str, str]]:
    """Name → (`auto`, `from` or `literal`, text)."""
    return {key: _variable(name, entry) for key, entry in _map(name, value).items()}


def _variable(name: str, value: Any) -> tuple[str, str]:
    if isinstance(value, str):
        return "auto", value
    if isinstance(value, dict) and len(value) == 1:
        ((form, content),) = value.items()
        if form in _FORMS and isinstance(content, str):
            return form, content
    raise WrongType(f"{name} has texts, {{from: key}} or {{literal: text}}")


def prune_fields(name: str, value: Any) -> dict[str, Any]:
    """The members of `prune`; a bare boolean is `enabled`."""
    given: dict[str, Any] = {"enabled": value} if isinstance(value, bool) else _map(name, value)
    if "enabled" in given:
        boolean(f"{name}.enabled", given["enabled"])
    if "protection" in given:
        given["protection"] = _texts(f"{name}.protection", given["protection"])
    if "max_delete_ratio" in given:
        given["max_delete_ratio"] = _ratio(f"{name}.max_delete_ratio", given["max_delete_ratio"])
    return given


def _texts(name: str, value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) and item for item in value):
        raise WrongType(f"{name} is a list of texts")
    return tuple(value)


def _ratio(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1:
        raise WrongType(f"{name} is a number from 0 to 1")
    return float(value)


def _map(name: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict) or "" in value or len(value) > MAX_ENTRIES:
        raise WrongType(f"{name} is a map of at most {MAX_ENTRIES} entries")
    return dict(value)
