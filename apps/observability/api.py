"""Observability: metrics, traces, logs, and the facts of a request that they carry."""

from __future__ import annotations

from apps.observability import metrics
from apps.observability.conf import telemetry_settings
from apps.observability.domain.request_context import (
    UNMATCHED,
    RequestContext,
    audit_agent,
    enter_request,
    is_awaited,
    request_context,
)
from apps.observability.logs import mask_credentials, mask_tokens
from apps.observability.services import (
    exported_telemetry,
    start_telemetry,
    stop_telemetry,
)
