"""The parameters of a page's address: texts and choices, or what is wrong with them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from kernel.errors import FieldError, InvalidInput

TEXT_MAX: Final = 200


def text(given: Mapping[str, str], name: str) -> str:
    """Return a parameter without the spaces around it, "" if it is absent; raise InvalidInput."""
    found = given.get(name, "").strip()
    if len(found) > TEXT_MAX or not found.isprintable():
        raise invalid_parameter(name, f"at most {TEXT_MAX} printable characters")
    return found


def choice(given: Mapping[str, str], name: str, offered: Collection[str]) -> str:
    """Return one of the offered values, "" for an absent one; raise InvalidInput."""
    found = given.get(name, "").strip()
    if found not in offered:
        known = ", ".join(value for value in offered if value)
        raise invalid_parameter(name, f"{found[:TEXT_MAX]!r} is none of {known}")
    return found


def invalid_parameter(name: str, detail: str) -> InvalidInput:
    error = FieldError(pointer=f"/{name}", code="invalid_value", detail=detail)
    return InvalidInput(f"{name}: {detail}", code="invalid_parameter", errors=[error])
