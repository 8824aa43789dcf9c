"""Asking a service whether it is ready (contract 7.4)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Final

import httpx

from apps.workers.domain.readiness import (
    CommandProbe,
    HttpProbe,
    ImageProbe,
    LogProbe,
    Probe,
    StillRunning,
    TcpProbe,
)
from apps.workers.domain.runtime import Runtime, Unit
from apps.workers.supervisor.step_log import StepLog

_TRY_S: Final = 5.0  # how long one probe may take
_QUICK_S: Final = (0.02, 0.05, 0.1, 0.2)  # most services are ready soon: the first pauses


class Prober:
    """One HTTP client for all probes of a supervisor; redirects are not followed."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._client = httpx.AsyncClient(timeout=_TRY_S, trust_env=False)

    async def close(self) -> None:
        await self._client.aclose()

    async def until_ready(
        self,
        probe: Probe,
        unit: Unit,
        log: StepLog,
        *,
        headers: Mapping[str, str],
        interval_s: float,
    ) -> None:
        """Returns when the probe passes; the caller sets the limit."""
        if isinstance(probe, LogProbe):
            await until_seen(log, probe.text)
        elif isinstance(probe, StillRunning):
            await asyncio.sleep(probe.for_ms / 1000)  # what is declared ready is the time itself
        else:
            await self._repeat(probe, unit, headers, interval_s)

    async def _repeat(
        self, probe: Probe, unit: Unit, headers: Mapping[str, str], interval_s: float
    ) -> None:
        for pause_s in _QUICK_S:
            if await self._passes(probe, unit, headers):
                return
            await asyncio.sleep(min(pause_s, interval_s))
        while not await self._passes(probe, unit, headers):  # noqa: ASYNC110 - of another program
            await asyncio.sleep(interval_s)

    async def _passes(self, probe: Probe, unit: Unit, headers: Mapping[str, str]) -> bool:
        match probe:
            case HttpProbe():
                return await self._http(probe, unit, headers)
            case TcpProbe():
                return await self._tcp(probe, unit)
            case CommandProbe():
                return await self._runtime.run_inside(unit, probe.argv, timeout_s=_TRY_S) == 0
            case ImageProbe():
                return await self._runtime.is_healthy(unit)
            case _:
                return False

    async def _http(self, probe: HttpProbe, unit: Unit, headers: Mapping[str, str]) -> bool:
        endpoint = await self._runtime.endpoint(unit, probe.port)
        if endpoint is None:
            return False
        url = httpx.URL(f"http://{endpoint[0]}:{endpoint[1]}/{probe.path.removeprefix('/')}")
        try:
            async with self._client.stream("GET", url, headers=dict(headers)) as answer:
                return probe.passes(answer.status_code)
        except httpx.HTTPError:
            return False

    async def _tcp(self, probe: TcpProbe, unit: Unit) -> bool:
        endpoint = await self._runtime.endpoint(unit, probe.port)
        if endpoint is None:
            return False
        try:
            async with asyncio.timeout(_TRY_S):
                _, writer = await asyncio.open_connection(*endpoint)
        except (OSError, TimeoutError):
            return False
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
        return True


async def until_seen(log: StepLog, *texts: str) -> None:
    async with log.seen:
        await log.seen.wait_for(lambda: all(log.watch.has_seen(text) for text in texts))


async def until_any_seen(log: StepLog, *texts: str) -> None:
    async with log.seen:
        await log.seen.wait_for(lambda: any(log.watch.has_seen(text) for text in texts))
