"""Readiness: a recent ping found the orchestrator ready, and no background loop has failed."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Final

import grpc.aio

from kernel import background
from sync_stack.rpc.channel import OrchestratorChannel, call_metadata
from sync_stack.rpc.gen.partita.sync.v1.orchestrator_pb2 import PingRequest

log: Final = logging.getLogger("partita.sync.readiness")

PING_EVERY_S: Final = 2.0
FRESH_S: Final = 5.0
_PING_TIMEOUT_S: Final = 1.5
Observe = Callable[[str, float], None]  # status of a ping, seconds


class Health:
    """The readiness of a process; `notes` inform the operator without making it unready.

    `refusals`: why the process refuses work now, though the orchestrator may answer.
    """

    def __init__(
        self,
        notes: Callable[[], list[str]],
        clock: Callable[[], float],
        refusals: Callable[[], list[str]] = list,
    ) -> None:
        self._notes = notes
        self._refusals = refusals
        self._clock = clock
        self._ready_at = float("-inf")
        self._detail = "the orchestrator has not responded yet"
        self._logged: bool | None = None
        self.terminating = False

    def record(self, *, ready: bool, detail: str = "") -> None:
        """Record the result of a ping."""
        self._detail = detail
        if ready:
            self._ready_at = self._clock()

    def state(self) -> tuple[bool, str]:
        """Return whether the process is ready, and the detail."""
        notes = self._notes()
        if self.terminating:
            return False, "; ".join(["stopping", *notes])
        pinged = self._clock() - self._ready_at <= FRESH_S
        broken = [f"background loop {name} failed" for name in background.failing()]
        broken += self._refusals()
        notes += [f"background loop {name} is degraded" for name in background.degraded_loops()]
        reasons = [*([] if pinged else [self._detail]), *broken, *notes]
        return pinged and not broken, "; ".join(reasons)

    def probe(self) -> tuple[bool, str]:
        """Return the same, and log a change since the last probe."""
        ready, detail = self.state()
        if ready is not self._logged:
            self._logged = ready
            level = logging.INFO if ready else logging.WARNING
            text = "ready" if ready else f"not ready: {detail}"
            log.log(level, "%s", text, extra={"event": "readiness_changed", "ready": ready})
        return ready, detail


async def keep_pinging(
    channel: OrchestratorChannel,
    health: Health,
    *,
    token: str,
    observe: Observe = lambda _status, _seconds: None,
    on_ready: Callable[[], object] = lambda: None,
) -> None:
    """Ping the orchestrator every two seconds until cancelled.

    `on_ready` is called after each ping that found it ready.
    """
    metadata = call_metadata(token=token)
    while True:
        started = time.monotonic()
        status, ready = await _ping(channel, health, metadata)
        observe(status, time.monotonic() - started)
        if ready:
            on_ready()
        await asyncio.sleep(PING_EVERY_S)


async def _ping(
    channel: OrchestratorChannel, health: Health, metadata: tuple[tuple[str, str], ...]
) -> tuple[str, bool]:
    """Record the readiness of the orchestrator; return the status of the call, and the first."""
    try:
        response = await channel.stub.Ping(
            PingRequest(), timeout=_PING_TIMEOUT_S, metadata=metadata
        )
    except grpc.aio.AioRpcError as error:
        status = error.code().name
        detail = f"the orchestrator is not responding: {status}"
        if expired := channel.expiry_notice():
            detail = f"{detail} ({expired})"
        health.record(ready=False, detail=detail)
        return str(status), False
    detail = response.detail or "the orchestrator is not ready"
    health.record(ready=response.ready, detail="" if response.ready else detail)
    return "OK", bool(response.ready)
