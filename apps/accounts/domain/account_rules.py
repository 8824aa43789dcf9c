"""Rules for email addresses, names and passwords, and the names of workspaces."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator
from typing import Final

from kernel.errors import FieldError
from kernel.ids import slug

MAX_EMAIL: Final = 254  # RFC 5321, 4.5.3.1.3
MAX_FULL_NAME: Final = 200
_EMAIL: Final = re.compile(r"[^@\s\x00-\x1f\x7f]+@[^@\s\x00-\x1f\x7f]+\.[^@\s\x00-\x1f\x7f]+")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_PASSWORD_LENGTH: Final = range(8, 1025)


def normalized_email(text: str) -> str:
    """Return the address trimmed and in lower case."""
    return text.strip().lower()


def is_email(text: str) -> bool:
    """Return whether the address has the form `x@y.z`."""
    return len(text) <= MAX_EMAIL and _EMAIL.fullmatch(text) is not None


def account_errors(*, full_name: str, email: str) -> list[FieldError]:
    """Check a name and a normalized email address."""
    errors = []
    if not full_name:
        errors.append(_error("/fullName", "must not be empty"))
    elif len(full_name) > MAX_FULL_NAME or _CONTROL.search(full_name):
        errors.append(_error("/fullName", f"must be at most {MAX_FULL_NAME} printable characters"))
    if not is_email(email):
        errors.append(_error("/email", "must be an email address such as ada@example.org"))
    return errors


def name_errors(name: str) -> list[FieldError]:
    """Check the name of a workspace."""
    if not name or len(name) > MAX_FULL_NAME or _CONTROL.search(name):
        return [_error("/name", f"must be 1 to {MAX_FULL_NAME} printable characters")]
    return []


def password_errors(password: str) -> list[FieldError]:
    """Check a new password against the policy. No error repeats the password."""
    return [_error("/password", detail) for detail in _broken_rules(password)]


def workspace_name(full_name: str) -> str:
    """Return `Ada's workspace` for `Ada Lovelace`."""
    return f"{full_name.split(maxsplit=1)[0]}'s workspace"


def workspace_slug(full_name: str) -> str:
    """Return `ada-lovelace` for `Ada Lovelace`, `workspace` for a name that leaves no slug."""
    return slug(full_name) or "workspace"


def alternative_slug(taken: str) -> str:
    return f"{taken}-{secrets.token_hex(3)}"


def _broken_rules(password: str) -> Iterator[str]:
    if len(password) not in _PASSWORD_LENGTH:
        yield "must have 8 to 1,024 characters"
    if not any(character.isupper() for character in password):
        yield "must have an uppercase letter"
    if not any(character.islower() for character in password):
        yield "must have a lowercase letter"
    if not any(character.isdigit() for character in password):
        yield "must have a digit"


def _error(pointer: str, detail: str) -> FieldError:
    return FieldError(pointer=pointer, code="invalid_value", detail=detail)
