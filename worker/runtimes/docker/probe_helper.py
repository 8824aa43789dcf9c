"""Probes of services from inside their run's network, if this process is not on it.

Each run has one idle helper container. Each probe runs a program in it that opens one connection.
This process speaks HTTP through that connection, so that headers of a probe are never arguments or
variables of a process.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import defaultdict
from collections.abc import Mapping
from typing import Final

import docker
import h11
import httpx
from docker.types import LogConfig

from worker.domain import ownership
from worker.domain.readiness import HttpProbe, ProbeResponse, TcpProbe
from worker.domain.runtime import RuntimeFailure, Unit
from worker.runtimes.docker.engine import APIError, Engine, explanation
from worker.runtimes.docker.engine_http import Attached, ConnectionBroken, EngineRefused, attach
from worker.runtimes.docker.images import Images

_TRY_S: Final = 5.0
_LIFE_S: Final = 3600  # then the helper ends; the next probe creates a new one
_RETRY_S: Final = 10.0  # after a failed creation
_CONFLICT: Final = 409
_UNKNOWN_PROGRAM: Final = (126, 127)
_USER: Final = "65534:65534"


class ProbeImpossible(Exception):
    """The probe cannot be made; the message says why."""


class ProbeHelpers:
    """Creates the helper of a run on its first probe; teardown removes it by its label."""

    def __init__(self, engine: Engine, images: Images, image: str, installation_id: str) -> None:
        self._engine = engine
        self._images = images
        self._image = image
        self._installation_id = installation_id
        self._made: dict[str, str] = {}  # run id → container
        self._failed: dict[str, tuple[float, str]] = {}  # run id → until when, and why
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    def forget(self, run_id: str) -> None:
        for known in (self._made, self._failed, self._locks):
            known.pop(run_id, None)

    async def probe(
        self, unit: Unit, address: str, probe: HttpProbe | TcpProbe, headers: Mapping[str, str]
    ) -> ProbeResponse:
        """Probe through the run's helper; an impossible probe is a problem in the response."""
        try:
            helper = await self._ready(unit)
            if isinstance(probe, TcpProbe):
                return await self._connects(helper, address, probe.port)
            return await self._status(helper, address, probe, headers)
        except ProbeImpossible as error:
            return ProbeResponse(problem=f"the probe cannot be made: {error}")
        except APIError as error:
            self._made.pop(unit.labels[ownership.RUN_ID], None)
            return ProbeResponse(problem=f"the probe cannot be made: {explanation(error)}")

    async def _ready(self, unit: Unit) -> str:
        run_id = unit.labels[ownership.RUN_ID]
        async with self._locks[run_id]:
            until, reason = self._failed.get(run_id, (0.0, ""))
            if time.monotonic() < until:
                raise ProbeImpossible(reason)
            if run_id not in self._made:
                try:
                    self._made[run_id] = await self._make(run_id, unit)
                except (RuntimeFailure, APIError) as error:
                    reason = explanation(error) if isinstance(error, APIError) else str(error)
                    self._failed[run_id] = (time.monotonic() + _RETRY_S, reason)
                    raise ProbeImpossible(reason) from error
            return self._made[run_id]

    async def _make(self, run_id: str, unit: Unit) -> str:
        await self._images.ensure(self._image, pulling=_ignore_pull)
        name = ownership.helper_name(run_id)
        if known := await self._engine.call(lambda client: self._found(client, name)):
            return known
        return await self._engine.call(
            lambda client: _started(client, self._image, name, run_id, unit)
        )

    def _found(self, client: docker.APIClient, name: str) -> str:
        """Return the helper of an earlier process; empty if none runs."""
        try:
            known = client.inspect_container(name)
        except docker.errors.NotFound:
            return ""
        if not ownership.is_owned(known["Config"]["Labels"] or {}, self._installation_id):
            raise ProbeImpossible(f"a container {name} of another owner exists")
        if known["State"]["Status"] == "running":
            return str(known["Id"])
        client.remove_container(known["Id"], v=True, force=True)
        return ""

    async def _connects(self, helper: str, address: str, port: int) -> ProbeResponse:
        def run(client: docker.APIClient) -> tuple[int, bytes]:
            program = client.exec_create(helper, [*_pipe(address, port), "-e", "true"])["Id"]
            said = client.exec_start(program)
            return client.exec_inspect(program)["ExitCode"] or 0, said

        code, said = await self._engine.call(run)
        return ProbeResponse() if code == 0 else ProbeResponse(problem=self._why(code, said, port))

    async def _status(
        self, helper: str, address: str, probe: HttpProbe, headers: Mapping[str, str]
    ) -> ProbeResponse:
        """Probe over HTTP; read only the status line."""
        request = _request(address, probe, headers)
        program = await self._engine.call(
            lambda client: client.exec_create(helper, _pipe(address, probe.port), stdin=True)
        )
        try:
            async with asyncio.timeout(_TRY_S), attach(self._engine.address, program["Id"]) as pipe:
                status = await _first_status(pipe, request)
        except TimeoutError:
            return ProbeResponse(problem=f"port {probe.port} gave no answer within {_TRY_S:g} s")
        except (OSError, ConnectionBroken, EngineRefused) as error:
            return ProbeResponse(
                problem=f"the probe cannot be made: {str(error) or type(error).__name__}"
            )
        except h11.ProtocolError:
            return ProbeResponse(problem=f"port {probe.port} does not answer in HTTP")
        if status is not None:
            return ProbeResponse(status=status)
        ended = await self._engine.call(lambda client: client.exec_inspect(program["Id"]))
        return ProbeResponse(problem=self._why(ended["ExitCode"] or 0, pipe.said, probe.port))

    def _why(self, code: int, said: bytes, port: int) -> str:
        if code in _UNKNOWN_PROGRAM:
            return f"the probe cannot be made: {self._image} has no `timeout` and `nc`"
        text = said.decode(errors="replace").strip().rpartition("\n")[2]
        return text or f"port {port} closed the connection without an answer"


def _pipe(address: str, port: int) -> list[str]:
    """Return the program that opens a connection; it ends by itself."""
    return ["timeout", f"{2 * _TRY_S:g}", "nc", "-w", f"{_TRY_S:g}", address, str(port)]


def _request(address: str, probe: HttpProbe, headers: Mapping[str, str]) -> h11.Request:
    own = {"host": f"{address}:{probe.port}", "connection": "close", "accept": "*/*"}
    given = {name.lower(): value for name, value in headers.items()}
    words = [(name.encode(), value.encode()) for name, value in (own | given).items()]
    target = httpx.URL(f"http://{address}:{probe.port}{probe.target}").raw_path
    try:
        return h11.Request(method="GET", target=target, headers=words)
    except h11.LocalProtocolError as error:
        raise ProbeImpossible(str(error)) from error


async def _first_status(pipe: Attached, request: h11.Request) -> int | None:
    """Return the status, None if the connection ends before. Raises h11.ProtocolError."""
    spoken = h11.Connection(our_role=h11.CLIENT)
    pipe.write(spoken.send(request) or b"")
    pipe.write(spoken.send(h11.EndOfMessage()) or b"")
    async for data in pipe.output():
        spoken.receive_data(data)
        while (event := spoken.next_event()) is not h11.NEED_DATA:
            if isinstance(event, h11.Response):
                return event.status_code
    return None


async def _ignore_pull(image: str) -> None:
    """Report nothing: a pull of the helper's image is not an event of the step."""
    del image


def _started(client: docker.APIClient, image: str, name: str, run_id: str, unit: Unit) -> str:
    """Start the helper, with the run's labels only, so that it is not a unit."""
    created = client.create_container(
        image=image,
        name=name,
        entrypoint=["sleep", str(_LIFE_S)],
        user=_USER,
        labels=ownership.without_step(unit.labels),
        host_config=client.create_host_config(
            network_mode=ownership.network_name(run_id),
            init=True,
            read_only=True,
            log_config=LogConfig(type="none"),
            mem_limit=64 * 2**20,
            memswap_limit=64 * 2**20,
            nano_cpus=5 * 10**8,
            pids_limit=64,
            security_opt=["no-new-privileges"],
            cap_drop=["ALL"],
        ),
    )
    container = str(created["Id"])
    try:
        client.start(container)
    except APIError:
        with contextlib.suppress(APIError):
            client.remove_container(container, v=True, force=True)
        raise
    return container
