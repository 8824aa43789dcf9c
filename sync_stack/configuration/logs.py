"""Log lines of the sync stack: one JSON object each on stdout, without secrets.

`log.info("…", extra={"event": "bundle_reloaded", …})`: the event's fields stand beside the usual
ones. `with log_context(task_id=…)` adds ids to all lines of a unit of work.
"""

from __future__ import annotations

import json
import logging
import logging.config
from collections.abc import Mapping
from contextvars import ContextVar, Token
from datetime import UTC, datetime
from typing import Any, Final

from kernel.redaction import SecretRegister, known_secrets

_MAX_TEXT: Final = 16_384
_MAX_ITEMS: Final = 200
_MAX_DEPTH: Final = 6
_OWN: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
# No data is in these: a password that is the product's name must not blank its name in them.
_OF_THE_CODE: Final = frozenset({"ts", "level", "logger"})
_context: ContextVar[Mapping[str, str] | None] = ContextVar("log_context", default=None)


class log_context:  # noqa: N801 - reads as the function that it is used as
    """Add these ids to every line that is logged inside; empty ids add nothing."""

    __slots__ = ("_fields", "_token")

    def __init__(
        self, *, correlation_id: str = "", task_id: str = "", request_id: str = ""
    ) -> None:
        self._fields: dict[str, str] = {}
        if correlation_id:
            self._fields["correlation_id"] = correlation_id
        if task_id:
            self._fields["task_id"] = task_id
        if request_id:
            self._fields["request_id"] = request_id

    def __enter__(self) -> None:
        outside = _context.get()
        fields = {**outside, **self._fields} if outside else self._fields
        self._token: Token[Mapping[str, str] | None] = _context.set(fields)

    def __exit__(self, *_exception: object) -> None:
        _context.reset(self._token)


class JsonLines(logging.Formatter):
    """A record as a line: `ts, level, logger, event, message, correlation_id, task_id` and more."""

    def __init__(self, *, register: SecretRegister = known_secrets) -> None:
        super().__init__()
        self._register = register

    def format(self, record: logging.LogRecord) -> str:
        usual, more = self._usual(record), self._of_event(record)
        constant = _OF_THE_CODE - more.keys()
        return json.dumps(
            {
                key: value if key in constant else self._safe(value)
                for key, value in {**usual, **more}.items()
            }
        )

    def _usual(self, record: logging.LogRecord) -> dict[str, object]:
        at = datetime.fromtimestamp(record.created, UTC)
        return {
            "ts": at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname,
            "logger": record.name,
            "event": getattr(record, "event", "") or "log",
            "message": record.getMessage(),
            **(_context.get() or {}),
        }

    def _of_event(self, record: logging.LogRecord) -> dict[str, object]:
        fields = {key: value for key, value in vars(record).items() if key not in _OWN}
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        return {key: value for key, value in fields.items() if value is not None}

    def _safe(self, value: Any, depth: int = 0) -> Any:
        """Bounded, JSON, and masked as text: before quoting, so that a line stays whole."""
        if isinstance(value, Mapping) and depth < _MAX_DEPTH:
            pairs = list(value.items())[:_MAX_ITEMS]
            return {self._text(str(key)): self._safe(item, depth + 1) for key, item in pairs}
        if isinstance(value, list | tuple | set | frozenset) and depth < _MAX_DEPTH:
            return [self._safe(item, depth + 1) for item in list(value)[:_MAX_ITEMS]]
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, int | float):
            masked = self._register.mask(str(value))
            return value if masked == str(value) and abs(value) < float("inf") else masked
        return self._text(str(value))

    def _text(self, text: str) -> str:
        masked = self._register.mask(text)
        return masked if len(masked) <= _MAX_TEXT else f"{masked[:_MAX_TEXT]}…"


def logging_settings(level: str, *, stream: str = "stdout") -> dict[str, object]:
    """For `logging.config.dictConfig` and Django's LOGGING; `level` as LOG_LEVEL has it."""
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"json": {"()": "sync_stack.configuration.logs.JsonLines"}},
        "handlers": {
            "lines": {
                "class": "logging.StreamHandler",
                "stream": f"ext://sys.{stream}",
                "formatter": "json",
            }
        },
        "root": {"handlers": ["lines"], "level": level},
        "loggers": {
            name: {"level": "WARNING"}
            for name in ("urllib3", "asyncio", "botocore", "pymongo", "httpx", "httpcore")
        },
    }


def configure_logging(level: str) -> None:
    """Configure logging in a process without Django."""
    logging.config.dictConfig(logging_settings(level))
