"""The runtime `kubernetes`: one pod per attempt (reference: control-plane 14.3)."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

import httpx

from kernel.agent_protocol import RuntimeResource, StepUsage
from worker.domain import ownership
from worker.domain.cpu_meter import CpuMeter
from worker.domain.evaluation import UnitExit
from worker.domain.output_records import OutputRecord
from worker.domain.ownership import UnitOwner
from worker.domain.readiness import HttpProbe, ProbeResponse, TcpProbe
from worker.domain.runtime import (
    STOP_GRACE_S,
    UNAVAILABLE_AFTER_S,
    Collected,
    Launch,
    NeverBegan,
    Progress,
    RemovedResources,
    Runtime,
    RuntimeOptions,
    RuntimeUnavailable,
    Unit,
)
from worker.domain.shells import Shell, ShellRequest
from worker.runtimes.kubernetes import keeper, probes, reasons
from worker.runtimes.kubernetes.access import open_access
from worker.runtimes.kubernetes.client import (
    ClusterClient,
    ClusterError,
    Gone,
    RequestDenied,
    StreamBroken,
    StreamSilent,
)
from worker.runtimes.kubernetes.objects import STEP_CONTAINER, AnyList, Pod
from worker.runtimes.kubernetes.pod_contents import ContentReader
from worker.runtimes.kubernetes.pod_keepers import Keepers
from worker.runtimes.kubernetes.pod_log import NotALog, PodLogReader, take_until
from worker.runtimes.kubernetes.pod_shells import PodShells
from worker.runtimes.kubernetes.pod_starts import (
    PENDING_S,
    PodStarts,
    StartProgress,
    ignore_progress,
    rules_of,
)
from worker.runtimes.kubernetes.pod_units import has_started, is_void, unit_of
from worker.runtimes.kubernetes.pod_waits import PodWaits
from worker.runtimes.kubernetes.pod_watch import PodWatch
from worker.runtimes.kubernetes.pods_ahead import PodsAhead
from worker.runtimes.kubernetes.reasons import PodFailed, StartDropped
from worker.runtimes.kubernetes.resources import ClusterResources
from worker.runtimes.kubernetes.shared_directory import SharedDirectories

_TIMED_OUT: Final = 124
_NOT_RELEASED: Final = (
    "the pod was started ahead, and its release did not reach it: nothing has run"
)
_PING_S: Final = 2.0
_PAUSE_S: Final = 0.2
LOG_SILENCE_S: Final = 60.0  # then the log is opened again: a dead connection says nothing
_READ_S: Final = 15.0
COLLECT_S: Final = 600.0  # for the files of an ended step, which may be in several folders


class KubernetesRuntime(Runtime):
    """Steps as pods in one namespace of a cluster."""

    shared = True
    opens_shells = True
    separates_streams = False
    starts_ahead = True

    def __init__(
        self,
        options: RuntimeOptions,
        *,
        unavailable_after_s: float = UNAVAILABLE_AFTER_S,
        pending_s: float = PENDING_S,
        log_silence_s: float = LOG_SILENCE_S,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        """`pending_s`: how long a pod may wait for a node, an image or a quota.

        `log_silence_s`: after that a silent log is opened again.
        """
        access, namespace = open_access(options)
        self._unavailable_after_s = unavailable_after_s
        self._log_silence_s = log_silence_s
        self._client = ClusterClient(
            access, namespace, unavailable_after_s=unavailable_after_s, transport=transport
        )
        self._installation_id = options.installation_id
        self._resources = ClusterResources(self._client, options.installation_id)
        self._pods = PodWatch(self._client, self._resources.selector)
        self._waits = PodWaits(self._pods, unavailable_after_s)
        self._keepers = Keepers(self._client, self._pods)
        self._shared = SharedDirectories(
            self._client, self._keepers, options.installation_id, rules_of(options)
        )
        contents = ContentReader(self._client.server.host, self._resources, self._shared)
        self._starts = PodStarts(
            self._client, self._pods, self._resources, contents, options, pending_s=pending_s
        )
        self._ahead = PodsAhead(self._client, self._keepers, self._pods, contents, self._starts)
        self._shells = PodShells(self._client, self._pods, options.state_dir)
        self._cpu = CpuMeter()

    async def ping(self) -> bool:
        try:
            async with asyncio.timeout(_PING_S):
                await self._client.list_page("pods", AnyList, {"limit": "1"}, deadline_s=0)
        except (RuntimeUnavailable, ClusterError, TimeoutError):
            return False
        return True

    async def close(self) -> None:
        await self._ahead.close()
        await self._pods.close()
        await self._client.close()

    async def prepare(self, launch: Launch, *, pulling: Progress, waiting: Progress) -> None:
        """Create the pod and wait until its program runs; delete it if that is canceled."""
        with _cluster_errors():
            await self._start(launch, pulling, waiting)

    async def start(self, launch: Launch) -> Unit:
        with _cluster_errors():
            return unit_of(await self._start(launch, ignore_progress, ignore_progress))

    async def _start(self, launch: Launch, pulling: Progress, waiting: Progress) -> Pod:
        progress = StartProgress(pulling, waiting, self._ahead.make_room)
        released = await self._ahead.release(launch, progress)
        return released or await self._starts.start(launch, progress)

    async def start_ahead(self, launch: Launch) -> bool:
        with _cluster_errors():
            return await self._ahead.start(launch)

    async def remove_ahead(self, run_id: str, step_id: str) -> None:
        with _cluster_errors():
            await self._ahead.remove(run_id, step_id)

    async def output(self, unit: Unit, *, after: int = 0) -> AsyncGenerator[Sequence[OutputRecord]]:
        reader = PodLogReader(after)
        await self._waits.until(unit, has_started)
        async for records in self._follow(unit, reader):
            yield records
        position = -1
        while position != reader.position:  # read the rest, which the follower may have missed
            position = reader.position
            async for records in self._records(unit, reader, follow=False):
                yield records
        if rest := reader.finish():
            yield rest

    async def _follow(
        self, unit: Unit, reader: PodLogReader
    ) -> AsyncGenerator[Sequence[OutputRecord]]:
        """Yield the records until the step has ended; a kubelet ends its log up to 1 s later."""
        ending = self._pods.until(unit.name, lambda pod: pod.step.terminated is not None)
        ended = asyncio.create_task(ending, name=f"wait for the end of {unit.name}")
        try:
            while True:
                async for records in take_until(ended, self._records(unit, reader, follow=True)):
                    yield records
                pod = await self._pods.read(unit.name)
                if pod is None:
                    raise self._waits.loss(unit)
                if pod.step.terminated:
                    return
                await asyncio.sleep(_PAUSE_S)
        finally:
            ended.cancel()
            await asyncio.gather(ended, return_exceptions=True)

    async def _records(
        self, unit: Unit, reader: PodLogReader, *, follow: bool
    ) -> AsyncGenerator[Sequence[OutputRecord]]:
        """Yield the records of one stream that ends by itself; begin again when one breaks."""
        failing_since = 0.0
        while True:
            try:
                async for data in self._log(unit, reader.restart(), follow=follow):
                    records = reader.feed(data)
                    failing_since = 0.0
                    if records:
                        yield records
            except (Gone, StreamBroken, RequestDenied, NotALog) as error:
                if await self._pods.read(unit.name) is None:  # a kubelet that starts says so, too
                    raise self._waits.loss(unit) from error
                if follow and isinstance(error, StreamSilent):  # the step prints nothing
                    failing_since = 0.0
                else:
                    failing_since = await self._pause(unit, error, failing_since)
            else:
                return

    async def _pause(self, unit: Unit, error: Exception, failing_since: float) -> float:
        """Return since when the log cannot be read. Raises RuntimeUnavailable if for too long."""
        now = asyncio.get_running_loop().time()
        failing_since = failing_since or now
        if now - failing_since > self._unavailable_after_s:
            message = f"the output of {unit.name} cannot be read: {error}"
            raise RuntimeUnavailable(message) from error
        await asyncio.sleep(_PAUSE_S)
        return failing_since

    def _log(self, unit: Unit, since: str, *, follow: bool) -> AsyncGenerator[bytes]:
        silence_s = self._log_silence_s if follow else _READ_S
        return self._client.log(
            unit.name, STEP_CONTAINER, since=since, follow=follow, silence_s=silence_s
        )

    async def wait(self, unit: Unit) -> UnitExit:
        pod = await self._until_ended(unit)
        ended = pod.step.terminated
        if ended is None:
            raise self._waits.loss(unit)
        if lost := reasons.lost_problem(pod):
            raise PodFailed(lost)
        if reasons.has_ended_at_gate(pod):
            raise NeverBegan(_NOT_RELEASED)
        if dropped := reasons.dropped_start(pod, may_run_again=False):
            raise NeverBegan(str(dropped)) if isinstance(dropped, StartDropped) else dropped
        if pod.keeper is None:
            raise self._waits.loss(unit) if pod.is_going else PodFailed(reasons.KEEPER_LOST)
        await self._waits.repeat(unit, lambda: self._shared.keep(pod), limit_s=COLLECT_S)
        return UnitExit(exit_code=ended.exit_code, oom_killed=ended.reason == "OOMKilled")

    async def _until_ended(self, unit: Unit) -> Pod:
        """Return the pod of an ended step; a keeper that ends before the step is replaced."""

        def needs_keeper(pod: Pod) -> bool:
            return not (pod.keeper or pod.is_going)

        while True:
            pod = await self._waits.until(
                unit, lambda pod: pod.step.terminated is not None or needs_keeper(pod)
            )
            if pod.step.terminated or not await self._has_keeper(unit, pod):
                return await self._waits.until(unit, lambda pod: pod.step.terminated is not None)

    async def _has_keeper(self, unit: Unit, pod: Pod) -> bool:
        """Return whether the pod has a keeper, or has got another one."""
        if pod.keeper:
            return True
        return await self._waits.repeat(unit, lambda: self._keepers.replace(pod))

    async def stop(self, unit: Unit, *, grace_s: float = STOP_GRACE_S) -> None:
        pod = await self._pods.read(unit.name)
        if pod is None or pod.step.terminated:
            return
        await self._signal(unit, kill=grace_s <= 0)
        try:
            async with asyncio.timeout(max(grace_s, _READ_S if grace_s <= 0 else grace_s)):
                await self._waits.until(unit, lambda pod: pod.step.terminated is not None)
        except TimeoutError:
            await self._signal(unit, kill=True)
            await self._waits.until(unit, lambda pod: pod.step.terminated is not None)

    async def _signal(self, unit: Unit, *, kill: bool) -> None:
        pod = self._pods.get(unit.name)
        if pod and not await self._has_keeper(unit, pod):  # nothing else can act for us
            await self._resources.delete("pods", unit.name)
            raise PodFailed(reasons.KEEPER_LOST)
        await self._waits.repeat(
            unit, lambda: keeper.signal_step(self._keepers, unit.name, kill=kill)
        )

    async def remove(self, unit: Unit) -> None:
        if not ownership.is_owned(unit.labels, self._installation_id):
            return
        with _cluster_errors():
            await self._resources.delete_owned_pod(unit.name)
            self._pods.forget(unit.name)

    async def run_inside(self, unit: Unit, argv: Sequence[str], *, timeout_s: float) -> int:
        try:
            async with asyncio.timeout(timeout_s):
                result = await self._client.run(
                    unit.name, STEP_CONTAINER, argv, limit_s=timeout_s + _READ_S
                )
                return result.exit_code
        except TimeoutError:
            return _TIMED_OUT
        except (StreamBroken, RequestDenied, Gone):
            return 1  # not running

    async def probe_inside(
        self, unit: Unit, probe: HttpProbe | TcpProbe, headers: Mapping[str, str]
    ) -> ProbeResponse:
        pod = await self._pods.until(unit.name, lambda pod: bool(pod.status.pod_ip))
        if pod is None:
            return ProbeResponse(problem="the pod is gone")
        try:
            return await probes.probe(self._keepers, unit.name, pod.status.pod_ip, probe, headers)
        except (ClusterError, PodFailed) as error:
            return ProbeResponse(problem=f"the probe cannot be made: {error}")

    async def usage(self, unit: Unit) -> StepUsage | None:
        pod = self._pods.get(unit.name) or await self._pods.read(unit.name)
        if pod is None or not pod.step.running:
            return None
        try:
            used = await keeper.usage(self._keepers, unit.name)
        except (ClusterError, PodFailed):
            return None
        return StepUsage(
            cpu_percent=self._cpu.percent(unit, at=time.time(), cpu_s=used.cpu_s),
            memory_bytes=used.memory_bytes,
        )

    async def collect(self, unit: Unit, pattern: str) -> Collected:
        return await self._waits.repeat(
            unit, lambda: keeper.collect(self._keepers, unit.name, pattern), limit_s=COLLECT_S
        )

    async def find(self, owner: UnitOwner) -> Sequence[Unit]:
        with _cluster_errors():
            pods = await self._resources.pods(**{ownership.ORCHESTRATOR: owner.orchestrator_id})
            await self._ahead.remove_strays(pods)
        units = [pod for pod in pods if not is_void(pod)]
        for pod in units:
            self._pods.note(pod)
        return [unit_of(pod) for pod in units if not pod.is_going]

    async def runs(self, owner: UnitOwner) -> frozenset[str]:
        with _cluster_errors():
            return await self._resources.runs(owner.orchestrator_id)

    async def release(self, run_id: str, owner: UnitOwner) -> RemovedResources:
        with _cluster_errors():
            await self._ahead.keep_off(run_id)
            removed = await self._resources.release(run_id)
            if problem := await self._shared.remove(run_id, owner):
                return replace(removed, leftovers=(*removed.leftovers, problem))
            return removed

    async def list_resources(self) -> Sequence[RuntimeResource]:
        with _cluster_errors():
            return await self._resources.list_all()

    async def look_at(self, resource: RuntimeResource) -> RuntimeResource | None:
        with _cluster_errors():
            return await self._resources.look_at(resource)

    async def remove_resource(self, resource: RuntimeResource) -> bool:
        with _cluster_errors():
            return await self._resources.remove(resource)

    async def open_shell(self, unit: Unit, request: ShellRequest) -> Shell:
        if (pod := await self._pods.read(unit.name)) is None:
            raise self._waits.loss(unit)
        return await self._shells.open(pod, request)

    async def end_shells(self, owner: UnitOwner) -> int:
        return await self._shells.end_earlier(owner)


@contextlib.contextmanager
def _cluster_errors() -> Iterator[None]:
    try:
        yield
    except (ClusterError, keeper.ExecFailed) as error:
        raise RuntimeUnavailable(f"the cluster refused: {error}") from error
