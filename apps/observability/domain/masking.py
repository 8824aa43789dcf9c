"""Credentials out of log lines, by their shape: nobody has to know the value to hide it.

GET /x?token=abc        GET /x?token=***
Authorization: Bearer x Authorization: Bearer ***
eyJhbGciOi….….…        ***
"""

from __future__ import annotations

import re
from typing import Final

from kernel.redaction import MASK

_NAMES: Final = (
    "token|ticket|code|state|session_state|nonce|access_token|refresh_token|id_token|refreshToken|"
    "password|secret|client_secret|key|partita_session|csrftoken|csrfmiddlewaretoken|sessionid"
)
_JWT: Final = r"eyJ[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]*\.?[A-Za-z0-9_-]*"
# 256 random bits as tokens here are written: 43 characters, in both cases
_OPAQUE: Final = (
    r"(?<![A-Za-z0-9_-])(?=[A-Za-z0-9_-]{0,42}[A-Z])(?=[A-Za-z0-9_-]{0,42}[a-z])"
    r"[A-Za-z0-9_-]{43}(?![A-Za-z0-9_-])"
)
_TOKENS: Final = re.compile(f"{_JWT}|{_OPAQUE}")
_NAMED: Final = re.compile(rf"(?i)((?:^|[?&;'\"]\s?)(?:{_NAMES})=)[^&;\s'\"<>#]+")
_BEARER: Final = re.compile(r"(?i)\b(bearer|basic)[ +]+[^\s'\",;]+")


def mask_tokens(text: str) -> str:
    """Replace what is shaped like one of our tokens."""
    return _TOKENS.sub(MASK, text)


def mask_credentials(text: str) -> str:
    """Replace tokens, values of parameters and cookies that hold credentials, `Bearer` values."""
    named = _NAMED.sub(rf"\1{MASK}", text)
    return mask_tokens(_BEARER.sub(rf"\1 {MASK}", named))


def without_query(target: str) -> str:
    """Return the path of a request target; names in a query may be percent-encoded, so it goes."""
    return mask_credentials(target.partition("?")[0])
