"""Readiness: whether the orchestrator said in the last seconds that it is ready."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final

import grpc.aio

from sync_stack.gateway.metrics import Metrics
from sync_stack.rpc.channel import OrchestratorChannel, call_metadata
from sync_stack.rpc.gen.partita.sync.v1.orchestrator_pb2 import PingRequest

PING_EVERY_S: Final = 2.0
FRESH_S: Final = 5.0
_PING_TIMEOUT_S: Final = 1.5
_METHOD: Final = "Ping"


class Health:
    def __init__(self, notes: Callable[[], list[str]], clock: Callable[[], float]) -> None:
        self._notes = notes
        self._clock = clock
        self._ready_at = float("-inf")
        self._said = "the orchestrator did not answer yet"
        self.terminating = False

    def heard(self, *, ready: bool, said: str) -> None:
        self._said = said
        if ready:
            self._ready_at = self._clock()

    def state(self) -> tuple[bool, str]:
        """Ready, and what an operator should know: also of what does not make it unready."""
        notes = self._notes()
        if self.terminating:
            return False, "; ".join(["stopping", *notes])
        ready = self._clock() - self._ready_at <= FRESH_S
        return ready, "; ".join(notes if ready else [self._said, *notes])


class Pinger:
    """Asks the orchestrator every two seconds until cancelled."""

    def __init__(
        self, channel: OrchestratorChannel, health: Health, metrics: Metrics, token: str
    ) -> None:
        self._channel = channel
        self._health = health
        self._metrics = metrics
        self._metadata = call_metadata(token=token)

    async def run(self) -> None:
        while True:
            await self._ping()
            await asyncio.sleep(PING_EVERY_S)

    async def _ping(self) -> None:
        started = time.monotonic()
        try:
            answer = await self._channel.stub.Ping(
                PingRequest(), timeout=_PING_TIMEOUT_S, metadata=self._metadata
            )
        except grpc.aio.AioRpcError as error:
            status = error.code().name
            self._health.heard(ready=False, said=f"the orchestrator does not answer: {status}")
        else:
            status = "OK"
            said = answer.detail or "the orchestrator is not ready"
            self._health.heard(ready=answer.ready, said="" if answer.ready else said)
        self._metrics.calls.labels(_METHOD, status).inc()
        self._metrics.call_durations.labels(_METHOD).observe(time.monotonic() - started)
