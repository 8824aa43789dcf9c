"""What log lines carry, and which of Django's are worth a line."""

from __future__ import annotations

import logging

from apps.system.domain.context import request_context


class RequestIdFilter(logging.Filter):
    """Sets `record.request_id`: the current request's, or `-`."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.request_id = request_context().request_id or "-"
        return True


class WithStackFilter(logging.Filter):
    """Of Django's remarks on answers those about an exception: the audit trail has the rest."""

    def filter(self, record: logging.LogRecord) -> bool:
        return bool(record.exc_info)
