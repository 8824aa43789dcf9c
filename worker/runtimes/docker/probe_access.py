"""The ways to a service of a run: its network, if this process is on it, else a helper inside."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any, Final

import docker
import h11
import httpx
from docker.types import LogConfig

from worker.domain import ownership
from worker.domain.readiness import HttpProbe, ProbeResponse, TcpProbe
from worker.domain.runtime import RuntimeFailure, Unit
from worker.runtimes.docker.engine import APIError, ContainerEngine, NotFound, explanation
from worker.runtimes.docker.engine_http import Attached, ConnectionBroken, EngineRefused, attach
from worker.runtimes.docker.images import Images

log = logging.getLogger("partita.workers")
Interfaces = Callable[[], Mapping[str, frozenset[str]]]  # name → its IP and MAC addresses
_BRIDGE_NAME: Final = "com.docker.network.bridge.name"
_TRY_S: Final = 5.0
_LIFE_S: Final = 3600  # then the helper ends; the next probe creates a new one
_RETRY_S: Final = 10.0  # after a failed creation
_UNKNOWN_PROGRAM: Final = (126, 127)
_USER: Final = "65534:65534"


class NetworkAccess:
    """Determines the access once per network; `leave` disconnects this process.

    Its own interfaces prove the access. An address of the network proves nothing, because another
    program here may have the same one. On the engine's own host, the network's bridge is an
    interface. A process in a container of the engine is connected to the network. All other
    processes have no access.
    """

    def __init__(self, engine: ContainerEngine, interfaces: Interfaces, host_name: str) -> None:
        self._engine = engine
        self._interfaces = interfaces
        self._host_name = host_name
        self._own_id: str | None = None
        self._decided: dict[str, bool] = {}
        self._lock = asyncio.Lock()

    async def is_on(self, network: str) -> bool:
        async with self._lock:
            if network not in self._decided:
                found = await self._inspect(network)
                self._decided[network] = found is not None and (
                    self._has_bridge(found) or await self._join(network)
                )
            return self._decided[network]

    async def leave(self, networks: list[str]) -> None:
        """Disconnect from networks before their removal, even if an earlier process connected."""
        async with self._lock:
            if own := await self._own():
                for network in networks:
                    await self._engine.call(_disconnection(own, network))

    def forget(self, run_id: str) -> None:
        for network in [name for name in self._decided if run_id in name]:
            del self._decided[network]

    def _has_bridge(self, found: Mapping[str, Any]) -> bool:
        name = (found.get("Options") or {}).get(_BRIDGE_NAME) or f"br-{found['Id'][:12]}"
        gateways = {each.get("Gateway", "") for each in found["IPAM"]["Config"] or []} - {""}
        return bool(gateways & self._interfaces().get(name, frozenset()))

    async def _join(self, network: str) -> bool:
        own = await self._own()
        if not own:
            return False
        try:
            await self._engine.call(_connection(own, network))
        except APIError:
            return False
        if self._is_joined(await self._inspect(network), own):
            return True
        await self._engine.call(_disconnection(own, network))
        return False

    def _is_joined(self, found: Mapping[str, Any] | None, own: str) -> bool:
        """Return True if the engine lists an endpoint of ours that is an interface here."""
        endpoint = ((found or {}).get("Containers") or {}).get(own, {})
        address = endpoint.get("IPv4Address", "").partition("/")[0]
        return self._has({address, endpoint.get("MacAddress", "")})

    async def _own(self) -> str:
        """Return the container that this process runs in; empty if it is none of this engine."""
        if self._own_id is None:
            self._own_id = await self._engine.call(self._find_own)
        return self._own_id

    def _find_own(self, client: docker.APIClient) -> str:
        for each in client.containers():
            networks = (each.get("NetworkSettings") or {}).get("Networks") or {}
            has_our_address = any(
                self._has({endpoint.get("IPAddress", ""), endpoint.get("MacAddress", "")})
                for endpoint in networks.values()
            )
            if has_our_address and _host_name_of(client, each["Id"]) == self._host_name:
                return str(each["Id"])
        return ""

    def _has(self, addresses: set[str]) -> bool:
        """Return True if one interface has all addresses; missing ones are empty."""
        return "" not in addresses and any(addresses <= own for own in self._interfaces().values())

    async def _inspect(self, network: str) -> Mapping[str, Any] | None:
        try:
            return await self._engine.call(lambda client: dict(client.inspect_network(network)))
        except NotFound:
            return None


def _host_name_of(client: docker.APIClient, container: str) -> str:
    try:
        return str(client.inspect_container(container)["Config"]["Hostname"])
    except NotFound:  # it went meanwhile
        return ""


def _connection(container: str, network: str) -> Callable[[docker.APIClient], None]:
    def connect(client: docker.APIClient) -> None:
        if container not in (client.inspect_network(network).get("Containers") or {}):
            client.connect_container_to_network(container, network)

    return connect


def _disconnection(container: str, network: str) -> Callable[[docker.APIClient], None]:
    def disconnect(client: docker.APIClient) -> None:
        try:
            if container in (client.inspect_network(network).get("Containers") or {}):
                client.disconnect_container_from_network(container, network, force=True)
        except APIError as error:  # then the removal of the network fails and is logged
            log.warning("cannot disconnect from %s: %s", network, explanation(error))

    return disconnect


class ProbeImpossible(Exception):
    """The probe cannot be made; the message says why."""


class ProbeHelpers:
    """Creates the helper of a run on its first probe; teardown removes it by its label.

    Each run has one idle helper container. Each probe runs a program in it that opens one
    connection. This process speaks HTTP through that connection, so that headers of a probe are
    never arguments or variables of a process.
    """

    def __init__(
        self, engine: ContainerEngine, images: Images, image: str, installation_id: str
    ) -> None:
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
        if known := await self._engine.call(lambda client: self._find_helper(client, name)):
            return known
        return await self._engine.call(
            lambda client: _start_helper(client, self._image, name, run_id, unit)
        )

    def _find_helper(self, client: docker.APIClient, name: str) -> str:
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


def _start_helper(client: docker.APIClient, image: str, name: str, run_id: str, unit: Unit) -> str:
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
