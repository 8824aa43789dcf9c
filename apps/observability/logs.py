"""What log lines carry, what they never carry, and which of Django's are worth a line.

Credentials are masked by their shape: nobody has to know the value to hide it.

    GET /x?token=abc        GET /x?token=***
    Authorization: Bearer x Authorization: Bearer ***
    eyJhbGciOi….….…        ***
"""

from __future__ import annotations

import logging
import os
import re
from logging.handlers import RotatingFileHandler
from typing import Any, Final

from apps.observability.domain.request_context import request_context
from kernel.redaction import MASK

_ACCESS: Final = "uvicorn.access"
_SERVER: Final = ("uvicorn", "uvicorn.error", "uvicorn.asgi", _ACCESS)
_TRACEBACK: Final = logging.Formatter()
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
_PROGRAMS: Final = r"(?<![A-Za-z0-9])p(?:at|ci)_[A-Za-z0-9_-]{43}"  # API tokens, CI sessions
_TOKENS: Final = re.compile(f"{_JWT}|{_PROGRAMS}|{_OPAQUE}")
_NAMED: Final = re.compile(rf"(?i)((?:^|[?&;'\"]\s?)(?:{_NAMES})=)[^&;\s'\"<>#]+")
_BEARER: Final = re.compile(r"(?i)\b(bearer|basic)[ +]+[^\s'\",;]+")


class PrivateLogFile(RotatingFileHandler):
    """A rotating log file that only its owner reads: lines name accounts and addresses."""

    def _open(self) -> Any:
        return open(self.baseFilename, self.mode, encoding=self.encoding, opener=_open_private)


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


class RequestIdFilter(logging.Filter):
    """Sets `record.request_id`: the current request's, or `-`."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.request_id = request_context().request_id or "-"
        return True


class WithStackFilter(logging.Filter):
    """Of Django's remarks on answers those about an exception: the audit trail has the rest."""

    def filter(self, record: logging.LogRecord) -> bool:
        return bool(record.exc_info)


class WithoutCredentialsFilter(logging.Filter):
    """Masks credentials in the message and in the stack trace, whatever formats them later."""

    def filter(self, record: logging.LogRecord) -> bool:
        if record.name == _ACCESS and isinstance(record.args, tuple):
            # uvicorn's formatter wants its arguments: address, method, target, version, status
            record.args = tuple(
                without_query(each) if isinstance(each, str) else each for each in record.args
            )
            return True
        message = record.getMessage()
        if (masked := mask_credentials(message)) != message:
            record.msg, record.args = masked, ()
        if record.exc_info and not record.exc_text:
            record.exc_text = mask_credentials(_TRACEBACK.formatException(record.exc_info))
        return True


def protect_server_logs() -> None:
    """Keep query strings and credentials out of what uvicorn logs, however it was started.

    The filter sits on its loggers, not on handlers: an own `--log-config` has handlers of its own.
    """
    for name in _SERVER:
        logger = logging.getLogger(name)
        if not any(isinstance(each, WithoutCredentialsFilter) for each in logger.filters):
            logger.addFilter(WithoutCredentialsFilter())


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
