"""From a launch to a pod whose program runs: its objects, files and the wait for its start."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Final

from kernel.pull_credentials import PullCredentials
from worker.domain import ownership
from worker.domain.runtime import (
    ImageMissing,
    Launch,
    Progress,
    RuntimeFailure,
    RuntimeOptions,
    StartFailed,
)
from worker.runtimes.kubernetes import keeper, pod_spec, reasons
from worker.runtimes.kubernetes.client import (
    ClusterClient,
    ClusterError,
    Exists,
    RequestDenied,
    StreamBroken,
)
from worker.runtimes.kubernetes.objects import FILLER, AnyObject, ClusterEvent, EventList, Pod
from worker.runtimes.kubernetes.pod_contents import ContentReader, PodContents
from worker.runtimes.kubernetes.pod_spec import PodExtras, PodRules
from worker.runtimes.kubernetes.pod_units import has_never_begun, is_up
from worker.runtimes.kubernetes.pod_watch import PodWatch
from worker.runtimes.kubernetes.reasons import PodFailed, PodProblem, StartDropped
from worker.runtimes.kubernetes.resources import ClusterResources

PENDING_S: Final = 600.0  # how long a pod may wait for a node, an image or a quota
NO_PLACE: Final = frozenset({"unschedulable", "quota_exceeded"})
CREDENTIALS_S: Final = 10.0
_TRY_EVERY_S: Final = 2.0  # to create a pod that a quota refuses
_LOOK_AFTER_S: Final = (2.0, 3.0, 5.0, 10.0)  # the last one again and again
_LOOKS_WITHOUT_READ: Final = 2
_FED: Final = "partita.fed"


class StartProgress:
    """Reports what a start waits for, whenever that changes, and that its image is pulled.

    `make_room` is called while no place for the pod is there.
    """

    def __init__(
        self, pulling: Progress, waiting: Progress, make_room: Callable[[], Awaitable[None]]
    ) -> None:
        self._pulling = pulling
        self._waiting = waiting
        self._make_room = make_room
        self._reported = ""
        self._has_pulled = False
        self.last_problem: PodProblem | None = None

    async def note(self, problem: PodProblem | None) -> None:
        """Report the problem, None: there is none any more. Raises it if waiting cannot help."""
        if problem and problem.is_final:
            raise failure_of(problem)
        self.last_problem = problem or self.last_problem
        if problem and problem.reason in NO_PLACE:
            await self._make_room()
        sentence = problem.sentence if problem else ""
        if sentence != self._reported:
            self._reported = sentence
            await self._waiting(sentence)

    async def note_pull(self, image: str) -> None:
        if not self._has_pulled:
            self._has_pulled = True
            await self._pulling(image)


class PodStarts:
    """Creates pods and waits until their programs run."""

    def __init__(
        self,
        client: ClusterClient,
        pods: PodWatch,
        resources: ClusterResources,
        contents: ContentReader,
        options: RuntimeOptions,
        *,
        pending_s: float = PENDING_S,
    ) -> None:
        self._client = client
        self._pods = pods
        self._resources = resources
        self._contents = contents
        self._credentials = options.credentials
        self._installation_id = options.installation_id
        self._pending_s = pending_s
        self._rules = rules_of(options)

    async def start(self, launch: Launch, progress: StartProgress) -> Pod:
        """Return the started pod of the launch, which may exist. Raises RuntimeFailure.

        The pod is deleted if that fails or is canceled.
        """
        if not launch.image:
            raise ImageMissing(
                "no image is declared, and none belongs to the step's file or commands"
            )
        limit = asyncio.timeout(self._pending_s)
        try:
            async with limit:
                await self._ensure(launch, progress)
                while True:
                    try:
                        return await self._until_started(launch, progress)
                    except StartDropped as dropped:
                        await self._start_again(launch, progress, dropped)
        except BaseException as error:
            await self.discard(launch)
            if isinstance(error, TimeoutError) and limit.expired():
                raise failure_of(self._too_late(progress.last_problem)) from None
            raise

    async def _start_again(
        self, launch: Launch, progress: StartProgress, dropped: StartDropped
    ) -> None:
        """Put a pod in the place of one whose start was dropped."""
        await progress.note(dropped.problem)
        await self.remove(dropped.pod)
        contents = await self._contents.read(launch)
        await self._make(launch, contents, progress, secrets_name=_another_name(launch))

    def _too_late(self, problem: PodProblem | None) -> PodProblem:
        waited = f"the pod did not start within {self._pending_s:g} s"
        if problem is None:
            return PodProblem(reason="runtime_unavailable", sentence=waited)
        return PodProblem(reason=problem.reason, sentence=f"{waited}: {problem.sentence}")

    async def discard(self, launch: Launch) -> None:
        """Delete the pod if it is ours; what cannot be deleted now goes with the run."""
        with contextlib.suppress(RuntimeFailure, ClusterError):
            await self._resources.delete_owned_pod(launch.name)
            self._pods.forget(launch.name)

    async def _ensure(self, launch: Launch, progress: StartProgress) -> None:
        """Create the pod with its Secrets and Service, unless it exists."""
        if await self._exists(launch.name):
            return
        await self.remove_earlier(launch)
        await self._contents.shared.note(launch)
        await self._make(launch, await self._contents.read(launch), progress)

    async def _make(
        self,
        launch: Launch,
        contents: PodContents,
        progress: StartProgress,
        gate: Sequence[str] = (),
        *,
        secrets_name: str = "",
    ) -> None:
        extras, made_before = await self._extras(launch, contents, gate, secrets_name)
        for secret in made_before:
            await self._create("secrets", secret)
        if launch.kind == "service" and launch.ports:
            await self._create("services", pod_spec.service(launch))
        body = pod_spec.pod(launch, self._rules, extras)
        if extras.is_fed:
            body["metadata"]["annotations"][_FED] = "true"  # type: ignore[index]
        made = await self._create_pod(launch.name, body, progress)
        for secret in made_before:
            await self._own("secrets", secret, made)

    async def start_at_gate(
        self, launch: Launch, contents: PodContents, gate: Sequence[str], progress: StartProgress
    ) -> Pod:
        """Start the pod of a launch with the program `gate`. Raises RuntimeFailure.

        The pod is deleted if that fails or is canceled.
        """
        if await self._exists(launch.name):
            raise RuntimeFailure(f"{launch.name} has been started already")
        try:
            async with asyncio.timeout(self._pending_s):
                name = _another_name(launch)
                await self._make(launch, contents, progress, gate, secrets_name=name)
                return await self._until_started(launch, progress)
        except BaseException as error:
            await asyncio.shield(self.discard(launch))
            if isinstance(error, TimeoutError):
                raise RuntimeFailure(f"{launch.name} did not reach its gate") from None
            raise

    async def _exists(self, name: str) -> bool:
        """Return whether the pod exists. Raises RuntimeFailure if it is another owner's."""
        known = await self._pods.read(name)
        if known and not ownership.is_owned(known.metadata.annotations, self._installation_id):
            raise RuntimeFailure(f"a pod {name} of another owner exists")
        if known and has_never_begun(known):  # at its gate, or because its node dropped it
            await self.remove(known)
            return False
        return known is not None

    async def remove(self, pod: Pod) -> None:
        """Remove this pod, and no other one of its name."""
        await self._resources.delete("pods", pod.name, uid=pod.metadata.uid)
        self._pods.forget(pod.name)

    async def _extras(
        self, launch: Launch, contents: PodContents, gate: Sequence[str], secrets_name: str
    ) -> tuple[PodExtras, list[pod_spec.Body]]:
        archive, credentials = await asyncio.gather(
            contents.archive(), self._credentials_of(launch.image)
        )
        is_fed = len(archive) > pod_spec.SECRET_LIMIT
        extras = PodExtras(
            hosts=contents.hosts,
            has_files=bool(contents.content),
            is_fed=is_fed,
            has_pull_secret=credentials is not None,
            gate=gate,
            secrets=secrets_name or launch.name,
        )
        named = replace(launch, name=extras.secrets)
        made = [pod_spec.environment_secret(named)]
        if not is_fed:
            made.append(pod_spec.files_secret(named, archive))
        if credentials:
            made.append(pod_spec.pull_secret(named, credentials))
        return extras, made

    async def _create(self, kind: str, body: pod_spec.Body) -> None:
        with contextlib.suppress(Exists):  # of a start that was interrupted
            await self._client.create(kind, body, AnyObject)

    async def _create_pod(
        self, name: str, body: pod_spec.Body, progress: StartProgress
    ) -> Pod | None:
        """Create the pod, waiting for quota. Raises PodFailed."""
        while True:
            try:
                made = await self._client.create("pods", body, Pod)
            except Exists:
                if await self._exists(name):
                    return None
            except RequestDenied as error:
                await progress.note(reasons.refusal_problem(str(error)))
            else:
                await progress.note(None)
                self._pods.note(made)
                return made
            await asyncio.sleep(_TRY_EVERY_S)

    async def _own(self, kind: str, body: pod_spec.Body, made: Pod | None) -> None:
        """Let the object go with its pod; without that it goes with the run."""
        if made is None:
            return
        name = str(body["metadata"]["name"])  # type: ignore[index]
        with contextlib.suppress(ClusterError):
            await self._client.patch(kind, name, pod_spec.owner_patch(made.name, made.metadata.uid))

    async def remove_earlier(self, launch: Launch) -> None:
        """Remove the pods of earlier attempts of the step."""
        if launch.attempt == 1:
            return
        of_step = {ownership.RUN_ID: launch.run_id, ownership.STEP: launch.step_id}
        for pod in await self._resources.pods(**of_step):
            if int(pod.metadata.annotations.get(ownership.ATTEMPT, 0)) < launch.attempt:
                await self.remove(pod)

    async def _credentials_of(self, image: str) -> PullCredentials | None:
        """Return the credentials. Raises ImageMissing if they cannot be read in time."""
        try:
            async with asyncio.timeout(CREDENTIALS_S):
                return await asyncio.to_thread(self._credentials, image)
        except TimeoutError:
            raise ImageMissing(
                f"the credentials of the registry of image {image} could not be read within "
                f"{CREDENTIALS_S:g} s"
            ) from None

    async def _until_started(self, launch: Launch, progress: StartProgress) -> Pod:
        """Wait for the program and report what it waits for. Raises RuntimeFailure."""
        fed, looks = False, 0
        while True:
            pod = await self._next_state(launch.name, fed=fed, looks=looks)
            looks += 1
            if pod is None:
                raise PodFailed(reasons.deleted_problem(self._pods.last_seen(launch.name)))
            if dropped := reasons.dropped_start(pod, may_run_again=launch.kind == "service"):
                raise dropped
            if failed := reasons.start_failure(pod):
                raise _start_failed(failed.message)
            if is_up(pod):
                return pod
            if not fed and _waits_for_files(pod):
                fed = await self._feed(launch)
            await self._report(pod, launch.image, progress)

    async def _next_state(self, name: str, *, fed: bool, looks: int) -> Pod | None:
        """Return the pod when there is something to do about it, or after a while.

        `looks`: how many there were; a later one reads the pod, in case the watch is silent.
        """

        def is_news(pod: Pod) -> bool:
            return (
                is_up(pod)
                or (not fed and _waits_for_files(pod))
                or reasons.lost_problem(pod) is not None
            )

        try:
            async with asyncio.timeout(_LOOK_AFTER_S[min(looks, len(_LOOK_AFTER_S) - 1)]):
                return await self._pods.until(name, is_news)
        except TimeoutError:
            if self._pods.get(name) is None:  # not even the first request was answered
                return await self._pods.read(name)
            if looks >= _LOOKS_WITHOUT_READ:
                await self._pods.read_again(name)
            return self._pods.get(name)

    async def _report(self, pod: Pod, image: str, progress: StartProgress) -> None:
        """Report what the pod waits for; its events are asked for what it does not say itself."""
        problem, waits = reasons.pending_problem(pod), pod.step.waiting is not None
        if waits or problem is None:
            events = (await self._events(pod)).items
            if waits and _pulls(events, image):
                await progress.note_pull(image)
            problem = problem or reasons.pending_problem(pod, events)
        await progress.note(problem)

    async def _events(self, pod: Pod) -> EventList:
        return await self._client.list_page(
            "events", EventList, {"fieldSelector": f"involvedObject.uid={pod.metadata.uid}"}
        )

    async def _feed(self, launch: Launch) -> bool:
        """Bring the files into the pod; return False if its container cannot be reached yet."""
        try:
            contents = await self._contents.read(launch)
            await keeper.feed(self._client, launch.name, await contents.archive())
        except StreamBroken:
            return False
        return True


def _another_name(launch: Launch) -> str:
    """Return a name for Secrets: those of a pod that is removed go with it, some time later."""
    return f"{launch.name}-{secrets.token_hex(4)}"


def rules_of(options: RuntimeOptions) -> PodRules:
    return PodRules(
        helper_image=options.helper_image,
        pull_policy=options.pull_policy,
        claim=options.cluster.claim,
    )


def _pulls(events: Sequence[ClusterEvent], image: str) -> bool:
    return any(each.reason == "Pulling" and f'"{image}"' in each.message for each in events)


def _waits_for_files(pod: Pod) -> bool:
    is_fed = _FED in pod.metadata.annotations
    return is_fed and pod.state_of(FILLER).running is not None


def failure_of(problem: PodProblem) -> RuntimeFailure:
    if problem.reason == ImageMissing.reason:
        return ImageMissing(problem.sentence)
    return PodFailed(problem)


def _start_failed(message: str) -> StartFailed:
    return StartFailed(message, 126 if "permission denied" in message else 127)


async def ignore_progress(text: str) -> None:
    """Report nothing."""
    del text
