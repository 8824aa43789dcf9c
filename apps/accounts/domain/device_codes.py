"""Sign-in of a program by a code that a person confirms (RFC 8628): its codes, words and times."""

from __future__ import annotations

import re
import secrets
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from apps.accounts.domain.api_tokens import TokenScope
from apps.accounts.domain.errors import DeviceCodeRefused
from apps.accounts.domain.principal import Principal
from kernel.errors import FieldError, InvalidInput

FIRST_INTERVAL_S: Final = 5
MAX_CLIENT: Final = 80
_SLOWER_BY_S: Final = 5  # RFC 8628, 3.5
_LONGEST_INTERVAL_S: Final = 60
_JITTER: Final = timedelta(seconds=1)  # two requests that left in time may arrive closer together
_LETTERS: Final = "BCDFGHJKLMNPQRSTVWXZ"  # RFC 8628, 6.1: no words, nothing that looks like another
_HALF: Final = 4
_NO_LETTER: Final = re.compile(rf"[^{_LETTERS}]")
_SEPARATORS: Final = re.compile(r"[\s_.–—-]+")


class DeviceDecision(StrEnum):
    """What a person has decided about the request of a program."""

    PENDING = "pending"
    APPROVED = "approved"
    DENIED = "denied"


def new_user_code() -> str:
    """Return eight random letters, as the store keeps them (34 bits)."""
    return "".join(secrets.choice(_LETTERS) for _ in range(2 * _HALF))


def shown_user_code(code: str) -> str:
    """Return a stored code as people read it: `WDJB-MJHT`."""
    return f"{code[:_HALF]}-{code[_HALF:]}"


def read_user_code(text: str) -> str:
    """Return the code that somebody typed as the store keeps it, whatever its case and dashes.

    Raise InvalidInput for what cannot be a code.
    """
    code = _SEPARATORS.sub("", text).upper()
    if len(code) != 2 * _HALF or _NO_LETTER.search(code):
        raise InvalidInput(
            "the code has eight letters, such as WDJB-MJHT; type it as the command shows it"
        )
    return code


def client_words(text: str) -> str:
    """Return what a program says of itself, trimmed; raise InvalidInput.

    People decide by these words: nothing in them may be invisible or turn the line around.
    """
    words = text.strip()
    if not words or len(words) > MAX_CLIENT or not words.isprintable():
        detail = f'must be 1 to {MAX_CLIENT} printable characters, such as "partita on ann-laptop"'
        error = FieldError(pointer="/client", code="invalid_value", detail=detail)
        raise InvalidInput(f"client {detail}", errors=[error])
    return words


def scopes_of(principal: Principal) -> list[TokenScope]:
    """Return the scopes that do not go beyond the person's role, the smallest first."""
    return [scope for scope in TokenScope if principal.has_role(scope.role)]


def pending_refusal(
    polled_at: datetime | None, interval_s: int, moment: datetime
) -> DeviceCodeRefused:
    """Return the answer to a program that asks before anybody has decided.

    Who asks sooner than `interval_s` after the last time has to wait longer from now on; the
    member `interval` says how long.
    """
    is_early = (
        polled_at is not None and moment < polled_at + timedelta(seconds=interval_s) - _JITTER
    )
    if not is_early:
        return DeviceCodeRefused(
            "the code has not been approved yet",
            code="authorization_pending",
            members={"interval": interval_s},
        )
    longer_s = min(interval_s + _SLOWER_BY_S, _LONGEST_INTERVAL_S)
    return DeviceCodeRefused(
        f"asked again too soon: wait {longer_s} s between requests",
        code="slow_down",
        members={"interval": longer_s},
    )
