"""System: the request pipeline, problems, strict REST views, readiness, life cycle, metrics.

The lowest app: it imports the kernel and nothing else of ours.
"""

from __future__ import annotations

from apps.system import metrics
from apps.system.commands import (
    ExitCode,
    VerbCommand,
    escape,
    print_json,
    print_table,
    printable,
    report_error,
    store_unusable,
)
from apps.system.conf import telemetry_settings
from apps.system.domain.conditional import is_not_modified, strong_etag
from apps.system.domain.context import (
    RequestContext,
    audit_agent,
    is_awaited,
    request_context,
)
from apps.system.domain.lifecycle import LifespanPart, begin_drain, is_draining, lifespan_parts
from apps.system.domain.probing import Probe, ProbeResult, probes
from apps.system.http.client import client_ip
from apps.system.http.json_body import MAX_BODY_BYTES, MalformedJson, PayloadTooLarge, parse_json
from apps.system.http.problems import internal_error, problem_for, problem_response
from apps.system.pipeline.stage import Stage, when_closed
from apps.system.selectors import installation_id
from apps.system.services.celery_application import celery_application
from apps.system.services.quick_redis import QuickRedis, RedisAway, redis_key, shared_redis
from apps.system.services.store_faults import DatastoreUnavailable, is_store_away
from apps.system.services.telemetry import exported_telemetry, start_telemetry, stop_telemetry

__all__ = [
    "MAX_BODY_BYTES",
    "DatastoreUnavailable",
    "ExitCode",
    "LifespanPart",
    "MalformedJson",
    "PayloadTooLarge",
    "Probe",
    "ProbeResult",
    "QuickRedis",
    "RedisAway",
    "RequestContext",
    "Stage",
    "VerbCommand",
    "audit_agent",
    "begin_drain",
    "celery_application",
    "client_ip",
    "escape",
    "exported_telemetry",
    "installation_id",
    "internal_error",
    "is_awaited",
    "is_draining",
    "is_not_modified",
    "is_store_away",
    "lifespan_parts",
    "metrics",
    "parse_json",
    "print_json",
    "print_table",
    "printable",
    "probes",
    "problem_for",
    "problem_response",
    "redis_key",
    "report_error",
    "request_context",
    "shared_redis",
    "start_telemetry",
    "stop_telemetry",
    "store_unusable",
    "strong_etag",
    "telemetry_settings",
    "when_closed",
]
