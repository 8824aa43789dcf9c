"""The runtime `docker`: one container per attempt (reference: control-plane 14.3)."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from typing import Final

from kernel.agent_protocol import RuntimeResource, StepUsage
from worker import host
from worker.domain import ownership
from worker.domain.cpu_meter import CpuMeter
from worker.domain.evaluation import UnitExit
from worker.domain.output_records import FrameReader, OutputRecord
from worker.domain.ownership import UnitOwner
from worker.domain.readiness import HttpProbe, ProbeResponse, TcpProbe
from worker.domain.runtime import (
    STOP_GRACE_S,
    UNAVAILABLE_AFTER_S,
    Collected,
    Launch,
    Progress,
    RemovedResources,
    Runtime,
    RuntimeOptions,
    RuntimeUnavailable,
    Unit,
    UnitLost,
    UnitState,
)
from worker.domain.shells import Shell, ShellRequest
from worker.runtimes.docker import artifacts, engine_http
from worker.runtimes.docker.container_start import ContainerStarter, stands_by
from worker.runtimes.docker.containers import Containers
from worker.runtimes.docker.engine import (
    APIError,
    Container,
    ContainerEngine,
    NotFound,
    RuntimeRefused,
    engine_address,
    explanation,
    inspect_container,
    repeat_after_server_errors,
    unit_of,
    unit_state,
)
from worker.runtimes.docker.images import Images
from worker.runtimes.docker.probe_access import Interfaces, NetworkAccess, ProbeHelpers
from worker.runtimes.docker.resources import InstallationResources
from worker.runtimes.docker.run_environment import RunEnvironment, filters
from worker.runtimes.docker.shells import ContainerShells
from worker.runtimes.docker.started_ahead import Releases, StartedAhead
from worker.runtimes.docker.toolbox import Toolbox
from worker.runtimes.docker.unit_copies import is_copy

_CONFLICT: Final = 409
_TIMED_OUT: Final = 124
_PING_S: Final = 2.0
_PAUSE_S: Final = 0.1


class DockerRuntime(Runtime):
    """Steps as containers of one Docker engine."""

    opens_shells = True

    def __init__(
        self,
        options: RuntimeOptions,
        *,
        unavailable_after_s: float = UNAVAILABLE_AFTER_S,
        interfaces: Interfaces = host.interfaces,
        host_name: str = "",
    ) -> None:
        """`interfaces` and `host_name` are those of the probing process, by default this one."""
        self.shared = options.is_remote
        self._unavailable_after_s = unavailable_after_s
        self._engine = ContainerEngine(
            engine_address(options), unavailable_after_s=unavailable_after_s
        )
        # over a network nobody would learn in time that the connection to a gate has broken
        self.starts_ahead = self._engine.address.is_socket
        self._images = Images(self._engine, options.pull_policy, options.credentials)
        self._environment = RunEnvironment(self._engine, options.state_dir)
        self._installation_id = options.installation_id
        self._containers = Containers(
            self._engine, self._images, self._environment, publishes=not options.is_remote
        )
        toolbox = Toolbox(self._engine, self._images, options.helper_image)
        self._releases = Releases(options.state_dir)
        self._ahead = StartedAhead(self._containers, toolbox, self._releases)
        self._starter = ContainerStarter(
            self._containers, self._ahead, self._releases, options.installation_id
        )
        self._resources = InstallationResources(
            self._engine, options.installation_id, self._releases
        )
        self._network_access = NetworkAccess(
            self._engine, interfaces, host_name or host.host_name()
        )
        self._helpers = ProbeHelpers(
            self._engine, self._images, options.helper_image, options.installation_id
        )
        self._shells = ContainerShells(self._engine, toolbox, options)
        self._cpu = CpuMeter()

    async def ping(self) -> bool:
        try:
            await self._engine.call(lambda client: client.ping(), deadline_s=_PING_S, retry=False)
        except (RuntimeUnavailable, APIError):
            return False
        return True

    async def close(self) -> None:
        await self._ahead.close()
        await self._starter.close()
        self._images.close()
        await self._engine.close()

    async def prepare(self, launch: Launch, *, pulling: Progress, waiting: Progress) -> None:
        del waiting
        await self._images.ensure(launch.image, pulling=pulling)

    async def start(self, launch: Launch) -> Unit:
        with _engine_errors():
            return await repeat_after_server_errors(lambda: self._starter.start(launch))

    async def stand_by(self, launch: Launch) -> None:
        with _engine_errors():
            await self._starter.stand_by(launch)

    async def start_ahead(self, launch: Launch) -> bool:
        with _engine_errors():
            return self.starts_ahead and await self._ahead.start(launch)

    async def remove_ahead(self, run_id: str, step_id: str) -> None:
        with _engine_errors():
            await self._ahead.remove(run_id, step_id)

    async def output(self, unit: Unit, *, after: int = 0) -> AsyncGenerator[Sequence[OutputRecord]]:
        address, position, follow = self._engine.address, after, True
        failing_since, loop = 0.0, asyncio.get_running_loop()
        while True:
            reader = FrameReader(position)
            try:
                async for records in engine_http.read(address, unit.id, reader, follow=follow):
                    position, failing_since = records[-1].position, 0.0
                    yield records
                if (await self._inspect(unit.id)).state is not UnitState.RUNNING:
                    if reader.last == await engine_http.last_frame(address, unit.id):
                        return
                    follow = False  # read the rest, which the engine's follower missed
                    continue
            except engine_http.EngineRefused as error:
                raise UnitLost(f"no output of {unit.name}: {error}") from error
            except (OSError, TimeoutError, engine_http.ConnectionBroken) as error:
                failing_since = failing_since or loop.time()
                if loop.time() - failing_since > self._unavailable_after_s:
                    raise RuntimeUnavailable(f"the output of {unit.name} cannot be read") from error
            await asyncio.sleep(_PAUSE_S)  # the engine restarts, or ended the log before the unit

    async def wait(self, unit: Unit) -> UnitExit:
        while True:
            try:
                await engine_http.wait_for_end(self._engine.address, unit.id)
            except engine_http.FAILURES:
                await asyncio.sleep(
                    _PAUSE_S
                )  # then the inspection says whether the engine is there
            state = (await self._container(unit.id)).state
            if unit_state(state.status) is not UnitState.RUNNING:
                return UnitExit(exit_code=state.exit_code, oom_killed=state.oom_killed)

    async def stop(self, unit: Unit, *, grace_s: float = STOP_GRACE_S) -> None:
        """Send the signals separately: the engine's stop would block a thread for `grace_s`."""
        await self._signal(unit, "SIGTERM")
        try:
            async with asyncio.timeout(grace_s):
                await self.wait(unit)
        except TimeoutError:
            await self._signal(unit, "SIGKILL")
            await self.wait(unit)

    async def _signal(self, unit: Unit, signal: str) -> None:
        try:
            await self._engine.call(lambda client: client.kill(unit.id, signal))
        except APIError as error:
            if error.status_code not in (404, _CONFLICT):  # gone, or not running
                raise RuntimeRefused(explanation(error)) from error

    async def remove(self, unit: Unit) -> None:
        if ownership.is_owned(unit.labels, self._installation_id):
            await self._containers.remove(unit.id)

    async def run_inside(self, unit: Unit, argv: Sequence[str], *, timeout_s: float) -> int:
        try:
            async with asyncio.timeout(timeout_s):
                return await self._exit_code_inside(unit, argv)
        except TimeoutError:
            return _TIMED_OUT
        except APIError as error:
            if error.status_code == _CONFLICT:  # not running
                return 1
            raise RuntimeRefused(explanation(error)) from error
        except engine_http.EngineRefused as error:
            if error.status == _CONFLICT:
                return 1
            raise RuntimeRefused(error.message or str(error)) from error
        except (OSError, engine_http.ConnectionBroken) as error:
            raise RuntimeUnavailable(f"the container runtime does not answer: {error}") from error

    async def _exit_code_inside(self, unit: Unit, argv: Sequence[str]) -> int:
        """Run a program to its end. Its output is read as it comes, and none of it is kept."""
        created = await self._engine.call(
            lambda client: client.exec_create(unit.id, list(argv), stdout=True, stderr=True)
        )
        program = str(created["Id"])
        async with engine_http.attach(self._engine.address, program) as attached:
            async for _ in attached.output():
                continue
        while True:  # the engine knows the code a moment after the end of the output
            found = await self._engine.call(lambda client: client.exec_inspect(program))
            if found["ExitCode"] is not None:
                return int(found["ExitCode"])
            await asyncio.sleep(_PAUSE_S)

    async def endpoint(self, unit: Unit, port: int) -> tuple[str, int] | None:
        """Return the container's own address: published ports accept before the program listens."""
        if not await self._network_access.is_on(_network(unit)):
            return None
        address = await self._address(unit)
        return (address, port) if address else None

    async def probe_inside(
        self, unit: Unit, probe: HttpProbe | TcpProbe, headers: Mapping[str, str]
    ) -> ProbeResponse:
        if address := await self._address(unit):
            return await self._helpers.probe(unit, address, probe, headers)
        return ProbeResponse(problem="the container has no address")

    async def _address(self, unit: Unit) -> str:
        """Return the address in the run's network; empty while the unit does not run."""
        return (await self._container(unit.id)).address_in(_network(unit))

    async def has_health_check(self, unit: Unit) -> bool:
        return (await self._container(unit.id)).has_health_check

    async def is_healthy(self, unit: Unit) -> bool:
        return (await self._container(unit.id)).is_healthy

    async def usage(self, unit: Unit) -> StepUsage | None:
        try:
            used = await engine_http.counters_of(self._engine.address, unit.id)
        except engine_http.FAILURES:
            return None  # also if the container is gone
        if used is None:
            return None
        return StepUsage(
            cpu_percent=self._cpu.percent(unit, at=time.time(), cpu_s=used.cpu_s),
            memory_bytes=used.memory_bytes,
            memory_peak_bytes=used.memory_peak_bytes,
        )

    async def collect(self, unit: Unit, pattern: str) -> Collected:
        with _engine_errors():
            return await self._engine.call(
                lambda client: artifacts.collect(client, unit.id, pattern)
            )

    async def find(self, owner: UnitOwner) -> Sequence[Unit]:
        ours = filters(owner, **{ownership.ORCHESTRATOR: owner.orchestrator_id})
        ours["label"].append(ownership.STEP)  # probe helpers are not units
        found = await self._engine.call(lambda client: client.containers(all=True, filters=ours))
        units = await asyncio.gather(
            *(self._inspect(each["Id"]) for each in found if not stands_by(each)),
            return_exceptions=True,
        )
        started = [self._releases.unit_of(unit) for unit in units if isinstance(unit, Unit)]
        return [unit for unit in started if unit is not None and not is_copy(unit.labels)]

    async def runs(self, owner: UnitOwner) -> frozenset[str]:
        with _engine_errors():
            return await self._environment.runs(owner)

    async def list_resources(self) -> Sequence[RuntimeResource]:
        with _engine_errors():
            return await self._resources.list_all()

    async def look_at(self, resource: RuntimeResource) -> RuntimeResource | None:
        with _engine_errors():
            return await self._resources.look_at(resource)

    async def remove_resource(self, resource: RuntimeResource) -> bool:
        with _engine_errors():
            if resource.kind == "network":
                await self._network_access.leave([resource.id])
            return await self._resources.remove(resource)

    async def release(self, run_id: str, owner: UnitOwner) -> RemovedResources:
        with _engine_errors():
            self._helpers.forget(run_id)
            await self._network_access.leave(await self._environment.networks(run_id, owner))
            self._network_access.forget(run_id)
            return await self._starter.release(run_id, owner)

    async def open_shell(self, unit: Unit, request: ShellRequest) -> Shell:
        now = await self._inspect(unit.id)
        return await self._shells.open(now, request, is_running=now.state is UnitState.RUNNING)

    async def end_shells(self, owner: UnitOwner) -> int:
        return await self._shells.end_earlier(owner)

    async def _container(self, unit_id: str) -> Container:
        try:
            return await self._engine.call(inspect_container(unit_id))
        except NotFound as error:
            raise UnitLost(f"container {unit_id[:12]} is gone") from error

    async def _inspect(self, unit_id: str) -> Unit:
        return unit_of(await self._container(unit_id))


def _network(unit: Unit) -> str:
    return ownership.network_name(unit.labels[ownership.RUN_ID])


@contextlib.contextmanager
def _engine_errors() -> Iterator[None]:
    """Translate error answers of the engine to the port's errors."""
    try:
        yield
    except NotFound as error:
        raise UnitLost(explanation(error)) from error
    except APIError as error:
        raise RuntimeRefused(explanation(error)) from error
