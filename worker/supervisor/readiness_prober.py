"""Readiness probes of services (reference: control-plane 7.4)."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable, Mapping
from itertools import chain, repeat
from typing import Final

import httpx

from worker.domain.readiness import (
    CommandProbe,
    HttpProbe,
    LogProbe,
    Probe,
    ProbeResponse,
    StillRunning,
    TcpProbe,
)
from worker.domain.runtime import Runtime, Unit
from worker.supervisor.step_log import StepLog

_TRY_S: Final = 5.0  # how long one probe may take
_QUICK_S: Final = (0.02, 0.05, 0.1, 0.2)  # most services are ready soon: the first pauses


class ReadinessProber:
    """Probes services with one HTTP client for all; does not follow redirects."""

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
        on_miss: Callable[[str], None],
    ) -> None:
        """Return when the probe passes; pass each failure to `on_miss`."""
        if isinstance(probe, LogProbe):
            await until_all_seen(log, probe.text)
        elif isinstance(probe, StillRunning):
            await asyncio.sleep(probe.for_ms / 1000)
        else:
            pauses = chain((min(pause, interval_s) for pause in _QUICK_S), repeat(interval_s))
            while problem := await self._missing(probe, unit, headers):
                on_miss(problem)
                await asyncio.sleep(next(pauses))

    async def _missing(self, probe: Probe, unit: Unit, headers: Mapping[str, str]) -> str:
        """Return why the probe does not pass now; empty if it passes."""
        match probe:
            case HttpProbe() | TcpProbe():
                return (await self._ask(probe, unit, headers)).missing(probe)
            case CommandProbe():
                code = await self._runtime.run_inside(unit, probe.argv, timeout_s=_TRY_S)
                return f"its command ended with exit code {code}" if code else ""
            case _:
                healthy = await self._runtime.is_healthy(unit)
                return "" if healthy else "the image's own health check does not pass"

    async def _ask(
        self, probe: HttpProbe | TcpProbe, unit: Unit, headers: Mapping[str, str]
    ) -> ProbeResponse:
        endpoint = await self._runtime.endpoint(unit, probe.port)
        if endpoint is None:
            return await self._runtime.probe_inside(unit, probe, headers)
        if isinstance(probe, TcpProbe):
            return await _connect(endpoint, probe.port)
        return await self._http(probe, endpoint, headers)

    async def _http(
        self, probe: HttpProbe, endpoint: tuple[str, int], headers: Mapping[str, str]
    ) -> ProbeResponse:
        url = httpx.URL(f"http://{endpoint[0]}:{endpoint[1]}{probe.target}")
        try:
            async with self._client.stream("GET", url, headers=dict(headers)) as answer:
                return ProbeResponse(status=answer.status_code)
        except httpx.TimeoutException:
            return ProbeResponse(problem=f"port {probe.port} gave no answer within {_TRY_S:g} s")
        except httpx.HTTPError as error:
            return ProbeResponse(problem=f"port {probe.port}: {_words(error)}")


def _words(error: httpx.HTTPError) -> str:
    """Return what the system said, such as `connection refused`, else what the client says."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.errno:
            return os.strerror(cause.errno).lower()
        cause = cause.__cause__ or cause.__context__
    return str(error) or type(error).__name__


async def _connect(endpoint: tuple[str, int], port: int) -> ProbeResponse:
    """Connect to the endpoint of the service's `port`, which may have another number."""
    try:
        async with asyncio.timeout(_TRY_S):
            _, writer = await asyncio.open_connection(*endpoint)
    except TimeoutError:
        return ProbeResponse(problem=f"port {port} gave no answer within {_TRY_S:g} s")
    except OSError as error:
        # asyncio puts the address in the place of the system's text
        said = os.strerror(error.errno).lower() if error.errno else str(error)
        return ProbeResponse(problem=f"port {port}: {said}")
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()
    return ProbeResponse()


async def until_all_seen(log: StepLog, *texts: str) -> None:
    async with log.seen:
        await log.seen.wait_for(lambda: all(log.watch.has_seen(text) for text in texts))


async def until_any_seen(log: StepLog, *texts: str) -> None:
    async with log.seen:
        await log.seen.wait_for(lambda: any(log.watch.has_seen(text) for text in texts))
