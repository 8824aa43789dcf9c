"""What log lines carry, what they never carry, and which of Django's are worth a line."""

from __future__ import annotations

import logging
from typing import Final

from apps.observability.domain.masking import mask_credentials, without_query
from apps.observability.domain.request_context import request_context

_ACCESS: Final = "uvicorn.access"
_SERVER: Final = ("uvicorn", "uvicorn.error", "uvicorn.asgi", _ACCESS)
_TRACEBACK: Final = logging.Formatter()


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
            record.args = tuple(_masked_argument(each) for each in record.args)
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


def _masked_argument(value: object) -> object:
    """Uvicorn's formatter wants its arguments: address, method, target, version, status."""
    return without_query(value) if isinstance(value, str) else value
