"""Readiness: the orchestrator said lately that it is ready, and no loop of ours has failed."""

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
    """`notes` are what an operator should know though it does not make the process unready."""

    def __init__(self, notes: Callable[[], list[str]], clock: Callable[[], float]) -> None:
        self._notes = notes
        self._clock = clock
        self._ready_at = float("-inf")
        self._said = "the orchestrator did not answer yet"
        self._told: bool | None = None
        self.terminating = False

    def heard(self, *, ready: bool, said: str = "") -> None:
        self._said = said
        if ready:
            self._ready_at = self._clock()

    def state(self) -> tuple[bool, str]:
        """Ready, and the detail."""
        notes = self._notes()
        if self.terminating:
            return False, "; ".join(["stopping", *notes])
        heard = self._clock() - self._ready_at <= FRESH_S
        broken = [f"background loop {name} failed" for name in background.failing()]
        return heard and not broken, "; ".join([*([] if heard else [self._said]), *broken, *notes])

    def probed(self) -> tuple[bool, str]:
        """The same, with a line in the log when it is another than at the probe before."""
        ready, detail = self.state()
        if ready is not self._told:
            self._told = ready
            level = logging.INFO if ready else logging.WARNING
            told = "ready" if ready else f"not ready: {detail}"
            log.log(level, "%s", told, extra={"event": "readiness_changed", "ready": ready})
        return ready, detail


async def keep_asking(
    channel: OrchestratorChannel,
    health: Health,
    *,
    token: str,
    observe: Observe = lambda _status, _seconds: None,
) -> None:
    """A ping every two seconds until cancelled."""
    metadata = call_metadata(token=token)
    while True:
        started = time.monotonic()
        status = await _ping(channel, health, metadata)
        observe(status, time.monotonic() - started)
        await asyncio.sleep(PING_EVERY_S)


async def _ping(
    channel: OrchestratorChannel, health: Health, metadata: tuple[tuple[str, str], ...]
) -> str:
    """The status of the call."""
    try:
        answer = await channel.stub.Ping(PingRequest(), timeout=_PING_TIMEOUT_S, metadata=metadata)
    except grpc.aio.AioRpcError as error:
        status = error.code().name
        health.heard(ready=False, said=_unanswered(channel, status))
        return str(status)
    said = answer.detail or "the orchestrator is not ready"
    health.heard(ready=answer.ready, said="" if answer.ready else said)
    return "OK"


def _unanswered(channel: OrchestratorChannel, status: str) -> str:
    said = f"the orchestrator does not answer: {status}"
    return f"{said} ({expired})" if (expired := channel.expired()) else said
