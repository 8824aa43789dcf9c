"""What a mail address, a name and a password must be, and how a workspace is called."""

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
    """Trimmed and lower-cased."""
    return text.strip().lower()


def is_email(text: str) -> bool:
    """Of the form `x@y.z`."""
    return len(text) <= MAX_EMAIL and _EMAIL.fullmatch(text) is not None


def account_faults(*, full_name: str, email: str) -> list[FieldError]:
    """List what is wrong with a name and a normalized mail."""
    faults = []
    if not full_name:
        faults.append(_fault("/fullName", "must not be empty"))
    elif len(full_name) > MAX_FULL_NAME or _CONTROL.search(full_name):
        faults.append(_fault("/fullName", f"must be at most {MAX_FULL_NAME} printable characters"))
    if not is_email(email):
        faults.append(_fault("/email", "must be a mail address such as ada@example.org"))
    return faults


def password_faults(password: str) -> list[FieldError]:
    """How a new password breaks the policy; never repeats the password."""
    return [_fault("/password", detail) for detail in _broken_rules(password)]


def workspace_name(full_name: str) -> str:
    """`Ada Lovelace` → `Ada's workspace`."""
    return f"{full_name.split(maxsplit=1)[0]}'s workspace"


def workspace_slug(full_name: str) -> str:
    """`Ada Lovelace` → `ada-lovelace`; `workspace` when no letter or digit of it is left."""
    return slug(full_name) or "workspace"


def another_slug(taken: str) -> str:
    return f"{taken}-{secrets.token_hex(3)}"


def _broken_rules(password: str) -> Iterator[str]:
    if len(password) not in _PASSWORD_LENGTH:
        yield "must have 8 to 1,024 characters"
    if not any(character.isupper() for character in password):
        yield "must have an upper-case letter"
    if not any(character.islower() for character in password):
        yield "must have a lower-case letter"
    if not any(character.isdigit() for character in password):
        yield "must have a digit"


def _fault(pointer: str, detail: str) -> FieldError:
    return FieldError(pointer=pointer, code="invalid_value", detail=detail)
