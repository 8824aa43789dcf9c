"""One record per answered request, made when its answer is out."""

from __future__ import annotations

import json
import logging
import time

from django.http import HttpRequest
from django.http.response import HttpResponseBase

from apps.http import conf
from apps.http.client_ip import client_ip
from apps.http.middleware.base import AsyncMiddleware
from apps.observability.api import RequestContext, request_context
from apps.operations.api import Audited, is_audited, recorded_path, trail
from kernel import clock

logger = logging.getLogger("partita.audit")


class AuditMiddleware(AsyncMiddleware):
    """Writes the line and queues the row after the response; for a stream, when it closes."""

    async def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if not is_audited(request.method or "", request.path):
            return await self.get_response(request)
        context, started = request_context(), time.monotonic()

        def ended(status: int) -> None:
            record_request(request, context, status=status, seconds=time.monotonic() - started)

        return await self.answered(request, ended)


def record_request(
    request: HttpRequest, context: RequestContext, *, status: int, seconds: float
) -> None:
    record = Audited(
        time=clock.now(),
        request_id=context.request_id,
        method=(request.method or "")[:32],
        route=context.route,
        path=recorded_path(request.path),
        status=status,
        duration_ms=round(seconds * 1000),
        remote_addr=client_ip(request),
        user_id=context.user_id or "",
        workspace_id=context.workspace_id or "",
        agent_id=(context.agent_id or "")[:128],
    )
    logger.info("%s", json.dumps(record.as_dict(), separators=(",", ":")))
    if conf.keeps_audit_rows():
        trail.put(record)
