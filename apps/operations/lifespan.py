"""What of this app lives as long as the server: the metrics listener, audit rows, telemetry."""

from __future__ import annotations

import asyncio
from threading import Thread
from wsgiref.simple_server import WSGIServer

from prometheus_client import start_http_server

from apps.observability.api import metrics, start_telemetry, stop_telemetry
from apps.operations import conf
from apps.operations.domain.lifecycle import LifespanPart
from apps.operations.services.audit_trail import trail
from apps.operations.services.server_processes import Presence


class MetricsListener(LifespanPart):
    """Prometheus text on METRICS_ADDR (`host:port`), never on the API's port."""

    def __init__(self) -> None:
        self._serving: tuple[WSGIServer, Thread] | None = None

    async def start(self) -> None:
        address = conf.metrics_address()
        if address is not None:
            host, port = address
            metrics.serve_statements()
            self._serving = start_http_server(port, host, registry=metrics.registry)

    async def stop(self) -> None:
        if self._serving is not None:
            server, thread = self._serving
            self._serving = None
            await asyncio.to_thread(server.shutdown)
            await asyncio.to_thread(thread.join)
            server.server_close()


class AuditRows(LifespanPart):
    async def stop(self) -> None:
        await asyncio.to_thread(trail.close)


class PresencePart(LifespanPart):
    """Without Redis, several processes have state apart: readiness must know of them."""

    def __init__(self) -> None:
        self._presence: Presence | None = None

    async def start(self) -> None:
        if not conf.redis_url():
            self._presence = Presence()
            self._presence.start()

    async def stop(self) -> None:
        if self._presence is not None:
            await asyncio.to_thread(self._presence.stop)


class Telemetry(LifespanPart):
    """Left alone where the process around the server exports by itself, as `up` does."""

    def __init__(self) -> None:
        self._mine = False

    async def start(self) -> None:
        self._mine = await asyncio.to_thread(start_telemetry)

    async def stop(self) -> None:
        if self._mine:
            self._mine = False
            await asyncio.to_thread(stop_telemetry)
