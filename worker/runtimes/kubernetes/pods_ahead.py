"""Pods that were started ahead and wait at their gate until their step may run.

Such a pod has the name and labels of its unit, and the annotation `partita.gate`. A start with the
same launch notes the time on the pod (`partita.released_at`) and opens the gate; anything else gets
a pod of its own. Without that note the pod is no unit, for any process, and whoever finds it
removes it. (reference: control-plane 14.3, decisions 0060 and 0062)
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

import httpx

from kernel import clock
from worker.domain import ownership
from worker.domain.gate_program import are_passed_on, gate_command
from worker.domain.runtime import BUSYBOX, Launch, RuntimeFailure, StartFailed
from worker.runtimes.kubernetes import keeper, pod_scripts
from worker.runtimes.kubernetes.client import ClusterClient, ClusterError, RequestDenied
from worker.runtimes.kubernetes.objects import STEP_CONTAINER, Pod
from worker.runtimes.kubernetes.pod_contents import ContentReader, PodContents
from worker.runtimes.kubernetes.pod_gate import PodGate
from worker.runtimes.kubernetes.pod_keepers import Keepers
from worker.runtimes.kubernetes.pod_spec import program_words
from worker.runtimes.kubernetes.pod_starts import (
    NO_PLACE,
    PodStarts,
    StartProgress,
    failure_of,
    ignore_progress,
)
from worker.runtimes.kubernetes.pod_units import is_void
from worker.runtimes.kubernetes.pod_watch import PodWatch
from worker.runtimes.kubernetes.reasons import PodProblem

log = logging.getLogger("partita.workers")
_KINDS: Final = ("task", "test")
_HOLD_OFF_S: Final = 60.0  # after a pod found no place
_CLOSE_S: Final = 3.0
_REMEMBERED: Final = 1_000
_FAILURES: Final = (RuntimeFailure, ClusterError, keeper.ExecFailed)
_Key = tuple[str, str]  # run, step


@dataclass(frozen=True, slots=True, kw_only=True)
class _GatedPod:
    pod: Pod
    launch: Launch
    contents: PodContents
    gate: PodGate


class _ProgressAhead(StartProgress):
    """Gives up at the first problem while nobody waits for the pod, then reports to who does."""

    def __init__(self) -> None:
        super().__init__(ignore_progress, ignore_progress, _make_no_room)
        self._follower: StartProgress | None = None

    def hand_over(self, follower: StartProgress) -> None:
        self._follower = follower

    async def note(self, problem: PodProblem | None) -> None:
        if self._follower:
            await self._follower.note(problem)
        elif problem:
            self.last_problem = problem
            raise failure_of(problem)

    async def note_pull(self, image: str) -> None:
        if self._follower:
            await self._follower.note_pull(image)


async def _make_no_room() -> None:
    """Do nothing: what is started ahead gives way itself."""


@dataclass(frozen=True, slots=True)
class _Start:
    """A pod on its way to its gate, or at it; `pod`: its name."""

    pod: str
    task: asyncio.Task[_GatedPod]
    progress: _ProgressAhead


class PodsAhead:
    """What this process has started ahead in one namespace."""

    def __init__(
        self,
        client: ClusterClient,
        keepers: Keepers,
        pods: PodWatch,
        contents: ContentReader,
        starts: PodStarts,
    ) -> None:
        self._client = client
        self._keepers = keepers
        self._pods = pods
        self._contents = contents
        self._starts = starts
        self._started: dict[_Key, _Start] = {}
        self._released: dict[str, PodGate] = {}  # whose connections are still open, by pod
        self._kept_off: dict[str, None] = {}  # runs that were released
        self._unusable: set[str] = set()  # images in which busybox does not run
        self._is_denied = False
        self._held_off_until = 0.0

    async def start(self, launch: Launch) -> bool:
        """Start the pod of a launch at its gate; return False if that is not to be done."""
        key = (launch.run_id, launch.step_id)
        if key in self._started or not self._may_start(launch):
            return False
        progress = _ProgressAhead()
        task = asyncio.create_task(self._start(launch, progress), name=f"start {launch.name} ahead")
        self._started[key] = _Start(launch.name, task, progress)
        try:
            await asyncio.shield(task)
        except _FAILURES as error:
            log.info("%s is not started ahead: %s", launch.name, error)
            if progress.last_problem and progress.last_problem.reason in NO_PLACE:
                self._hold_off()
            self._forget(key, task)
            return False
        except asyncio.CancelledError:
            if task.done():
                self._forget(key, task)
            raise
        return True

    def _forget(self, key: _Key, task: asyncio.Task[_GatedPod]) -> None:
        if key in self._started and self._started[key].task is task:
            del self._started[key]

    def _may_start(self, launch: Launch) -> bool:
        """Return whether nothing but the program would differ for others in the run."""
        return (
            launch.kind in _KINDS
            and not launch.ports
            and bool(launch.image and program_words(launch.program))
            and are_passed_on(launch.environment)
            and launch.run_id not in self._kept_off
            and launch.image not in self._unusable
            and not self._is_denied
            and asyncio.get_running_loop().time() >= self._held_off_until
        )

    def _hold_off(self) -> None:
        self._held_off_until = asyncio.get_running_loop().time() + _HOLD_OFF_S

    async def _start(self, launch: Launch, progress: StartProgress) -> _GatedPod:
        contents = await self._contents.read(launch)
        command = gate_command(program_words(launch.program), pod_scripts.WAIT_AT_GATE)
        labels = {**launch.labels, ownership.STARTED_AT: ""}
        try:
            pod = await self._starts.start_at_gate(
                replace(launch, labels=labels), contents, command, progress
            )
        except StartFailed as error:
            if BUSYBOX in str(error):
                self._unusable.add(launch.image)
            raise
        try:
            gate = await self._attach(pod)
        except BaseException:
            await asyncio.shield(self._starts.discard(launch))
            raise
        return _GatedPod(pod=pod, launch=launch, contents=contents, gate=gate)

    async def _attach(self, pod: Pod) -> PodGate:
        """Hold the gate of a pod, which waits for its release now."""
        try:
            connection = await self._client.attach_stdin(pod.name, STEP_CONTAINER)
        except RequestDenied as error:
            if error.status == httpx.codes.FORBIDDEN and not self._is_denied:
                self._is_denied = True
                log.warning("no step is started ahead: %s", error)
            raise
        gate = PodGate(connection, pod.name)
        try:
            await keeper.wait_for_gate(self._keepers, pod.name)
        except BaseException:
            await gate.close()
            raise
        return gate

    async def release(self, launch: Launch, progress: StartProgress) -> Pod | None:
        """Let the program of a launch run if its pod waits for that; return the pod.

        What waits for another launch of the step is removed, and one that is about to be started
        is waited for.
        """
        start = self._started.pop((launch.run_id, launch.step_id), None)
        if start is None:
            return None
        start.progress.hand_over(progress)
        try:
            waiting = await asyncio.shield(start.task)
        except _FAILURES as error:
            log.info("%s was not started ahead: %s", launch.name, error)
            return None
        except asyncio.CancelledError:
            await asyncio.shield(self._end(start.task))
            raise
        released: Pod | None = None
        try:
            if await self._completes(waiting, launch):
                released = await self._open(waiting, launch)
        except _FAILURES as error:
            log.info("%s was started ahead in vain: %s", launch.name, error)
        finally:
            if released is None:
                await asyncio.shield(self._remove(waiting))
        return released

    async def _completes(self, waiting: _GatedPod, launch: Launch) -> bool:
        """Return whether a pod is what the launch needs, with all files that it needs now."""
        pod = self._pods.get(launch.name)
        if waiting.gate.is_shut or not (pod and pod.step.running):
            return False
        if _comparable(waiting.launch) != _comparable(launch):
            return False
        contents = await self._contents.read(launch)
        changes = contents.changes_since(waiting.contents)
        if changes is None:
            return False
        if changes:
            added = replace(contents, content=b"", own=b"", changes=changes)
            await keeper.add_files(self._keepers, launch.name, await added.archive())
        await self._starts.remove_earlier(launch)
        return True

    async def _open(self, waiting: _GatedPod, launch: Launch) -> Pod | None:
        """Note the release on the pod, then open the gate; None if that is shut."""
        notes = {
            ownership.RELEASED_AT: clock.rfc3339(clock.now()),
            ownership.STARTED_AT: launch.labels.get(ownership.STARTED_AT, ""),
        }
        path = self._client.path("pods", launch.name)
        change = {"metadata": {"annotations": notes}}
        pod = await self._client.request("PATCH", path, Pod, body=change)
        self._pods.note(pod)
        if not await waiting.gate.release():
            return None
        self._keep_open(launch.name, waiting.gate)
        return pod

    def _keep_open(self, name: str, gate: PodGate) -> None:
        self._released = {pod: each for pod, each in self._released.items() if not each.is_shut} | {
            name: gate
        }

    async def remove(self, run_id: str, step_id: str) -> None:
        """Remove what waits for a step."""
        if start := self._started.pop((run_id, step_id), None):
            await self._end(start.task)

    async def _end(self, task: asyncio.Task[_GatedPod]) -> None:
        """Remove the pod of a start, which removes it itself if it has not reached its gate."""
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        if not task.cancelled() and not task.exception():
            await self._remove(task.result())

    async def _remove(self, waiting: _GatedPod) -> None:
        await waiting.gate.close()
        await self._starts.discard(waiting.launch)

    async def make_room(self) -> None:
        """Remove everything that waits: other pods find no place."""
        self._hold_off()
        for key in list(self._started):
            await self.remove(*key)

    async def remove_strays(self, pods: Iterable[Pod]) -> None:
        """Remove what other processes of this supervisor have left at its gate, ended or not."""
        ours = {start.pod for start in self._started.values()} | self._released.keys()
        for pod in pods:
            if is_void(pod) and not pod.is_going and pod.name not in ours:
                await self._starts.remove(pod)

    async def keep_off(self, run_id: str) -> None:
        """Start nothing of a run any more, and remove what waits."""
        self._kept_off[run_id] = None
        while len(self._kept_off) > _REMEMBERED:
            del self._kept_off[next(iter(self._kept_off))]
        for key in [key for key in self._started if key[0] == run_id]:
            with contextlib.suppress(*_FAILURES):
                await self.remove(*key)

    async def close(self) -> None:
        """Shut all gates: what waits at them ends, and is removed if that does not take long."""
        removals = [self.remove(*key) for key in self._started]
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_S):
                await asyncio.gather(*removals, return_exceptions=True)
        await asyncio.gather(*(gate.leave() for gate in self._released.values()))


def _comparable(launch: Launch) -> Launch:
    """Return a launch without what may differ between a hint and its claim."""
    labels = {**launch.labels, ownership.STARTED_AT: ""}
    files = replace(launch.workspace, fetch=_fetch_nothing)
    return replace(launch, labels=labels, workspace=files, step_files=None)


async def _fetch_nothing() -> bytes:
    """Stand for the files of a launch, which are compared by themselves."""
    return b""
