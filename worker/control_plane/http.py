"""The control plane behind the HTTP agent protocol, for a standalone worker.

(reference: control-plane 15)
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Final

import msgspec

from kernel import clock
from kernel.agent_protocol import (
    NO_PROBES,
    NO_USAGE,
    AdoptedJob,
    ArtifactUpload,
    Completion,
    DirectiveAnswer,
    HeartbeatAnswer,
    Job,
    JobDirective,
    KeptJobAnswer,
    LogChunk,
    LogLine,
    ProbeProgress,
    RegistrationAnswer,
    StateReport,
    StepUsage,
)
from worker.control_plane.client import ControlPlaneClient, CredentialRefused
from worker.control_plane.held_jobs import HeldJobs, StopPoller
from worker.domain.control_plane import (
    ControlPlaneError,
    ControlPlaneUnavailable,
    HeartbeatReport,
    RegistrationResult,
    RequestRefused,
    StaleJob,
)

log = logging.getLogger("partita.workers")
CLAIM_WAIT_S: Final = 25
_SLACK_S: Final = 10.0
_BYTES_S: Final = 120.0  # of a suite's files, or an artifact
_EMPTY_PAUSE_S: Final = 0.5  # after an immediate empty answer: the server is shutting down
_TEXT: Final = 16 * 1024
_CLAIM: Final = "/agent-control/claims/next"


class InstallationChanged(ControlPlaneError):
    """Another installation answers at this address now; `installation_id` is its id."""

    def __init__(self, installation_id: str) -> None:
        super().__init__(f"the control plane belongs to another installation: {installation_id}")
        self.installation_id = installation_id


class WorkerRegistration(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The facts that a worker registers with; `labels`: key → value."""

    agent_id: str
    incarnation: str
    name: str
    host_url: str
    backends: tuple[str, ...]
    capabilities: tuple[str, ...]
    labels: Mapping[str, str]
    version: str

    def as_wire(self) -> dict[str, object]:
        return {key: value for key, value in msgspec.to_builtins(self).items() if value}


class HttpControlPlane:
    """`installation_id` empty: any answers; it is known after `register`.

    `private_runs()`: runs that are not the control plane's, of which it must not be told.
    """

    in_order: ClassVar[bool] = False  # calls take several connections

    def __init__(
        self,
        client: ControlPlaneClient,
        registration: WorkerRegistration,
        held: HeldJobs,
        *,
        installation_id: str = "",
        direct_runs: Callable[[], frozenset[str]] = frozenset,
    ) -> None:
        self._client = client
        self._registration = registration
        self._held = held
        self._direct_runs = direct_runs
        self.starts_ahead = 0  # steps to hear of that may come next
        self._stop_poller: StopPoller | None = None
        self._claims_stopped = asyncio.Event()
        self._is_first = True
        self._last_error = ""
        self.installation_id = installation_id
        self.last_heartbeat_at = ""  # RFC 3339, of the last heartbeat that was answered

    async def discover_installation(self) -> str:
        """Register without jobs and return the installation's id. Raises as `register`."""
        answer = await self._register(self._registration.as_wire())
        return self._note_installation(answer)

    async def register(
        self, active: Sequence[Job], *, runtime_available: bool
    ) -> RegistrationResult:
        """Raises InstallationChanged, RequestRefused, ControlPlaneUnavailable."""
        del runtime_available  # the first heartbeat reports it
        named = [job for job in active if self._held.spec(job)]
        body = self._registration.as_wire() | {
            "activeJobs": [{"jobId": job.job_id, "attempt": job.attempt} for job in named]
        }
        answer = await self._register(body)
        self._note_installation(answer)
        self._last_error = ""
        log.info("registered as %s", self._registration.agent_id)
        return self._adopt(answer, active, named)

    def _note_installation(self, answer: RegistrationAnswer) -> str:
        theirs = answer.installation_id
        if not theirs or self.installation_id not in ("", theirs):
            raise InstallationChanged(theirs)
        self.installation_id = theirs
        return theirs

    async def _register(self, body: Mapping[str, object]) -> RegistrationAnswer:
        try:
            return await self._client.register(body)
        except CredentialRefused as error:
            self._log_error_once(f"the control plane refuses this AGENT_SHARED_SECRET ({error})")
            raise
        except ControlPlaneUnavailable as error:
            self._log_error_once(f"registration failed and is repeated: {error}")
            raise

    def _log_error_once(self, sentence: str) -> None:
        """Log the error unless the same one was logged last."""
        if sentence != self._last_error:
            self._last_error = sentence
            log.error(sentence)

    def _adopt(
        self, answer: RegistrationAnswer, active: Sequence[Job], named: Sequence[Job]
    ) -> RegistrationResult:
        keep = tuple(self._adopted_job(kept) for kept in answer.keep_jobs)
        drop = set(answer.drop_jobs)
        for job in named:
            if job.job_id in drop:
                self._held.release(job)
        if self._is_first:  # jobs of an earlier process that cannot be adopted
            self._held.release_all_but({kept.job for kept in keep})
            drop |= {job.job_id for job in active if job not in named}
            self._is_first = False
        return RegistrationResult(
            keep=keep,
            drop=tuple(sorted(drop)),
            heartbeat_s=answer.heartbeat_interval_ms / 1000,
            lease_grace_s=_seconds(answer.lease_grace_ms),
        )

    def _adopted_job(self, kept: KeptJobAnswer) -> AdoptedJob:
        job = Job(job_id=kept.job_id, attempt=kept.attempt)
        spec = self._held.spec(job)
        if spec is None:
            raise RequestRefused(f"the control plane keeps {job.job_id}, which was not listed")
        return AdoptedJob(job=job, next_seq=kept.next_seq, position=kept.position, spec=spec)

    async def heartbeat(self, beat: HeartbeatReport) -> Sequence[str]:
        private = self._direct_runs()
        body: dict[str, object] = {
            "runningJobs": beat.running_jobs,
            "runtimeAvailable": beat.runtime_available,
            "runs": [run_id for run_id in beat.runs if run_id not in private],
        }
        if beat.failing_loops:
            body["failingLoops"] = beat.failing_loops
        path = f"/agents/{self._registration.agent_id}/heartbeat"
        answer = await self._client.post(path, body, HeartbeatAnswer)
        self.last_heartbeat_at = clock.rfc3339(clock.now())
        return [run_id for run_id in answer.release_runs or () if run_id not in private]

    async def claim(self, limit: int) -> Sequence[Mapping[str, Any]]:
        """One step at a time; after `claim_no_more` it waits for ever."""
        del limit
        polling = asyncio.create_task(self._poll())
        ending = asyncio.create_task(self._claims_stopped.wait())
        try:
            await asyncio.wait({polling, ending}, return_when=asyncio.FIRST_COMPLETED)
            if polling.done():
                return polling.result()
        finally:
            polling.cancel()
            ending.cancel()
        return await _never()

    def stop_claims(self) -> None:
        self._claims_stopped.set()

    async def _poll(self) -> Sequence[Mapping[str, Any]]:
        if self._claims_stopped.is_set():
            return await _never()
        asked_at = asyncio.get_running_loop().time()
        body = {"agentId": self._registration.agent_id, "waitSeconds": CLAIM_WAIT_S}
        body |= {"startAhead": self.starts_ahead} if self.starts_ahead else {}
        deadline_s = CLAIM_WAIT_S + _SLACK_S
        try:
            spec = await self._client.post(_CLAIM, body, dict[str, Any], deadline_s=deadline_s)
        except (RequestRefused, StaleJob) as error:
            raise ControlPlaneUnavailable(str(error)) from error
        if not spec:
            if asyncio.get_running_loop().time() - asked_at < 1:
                await asyncio.sleep(_EMPTY_PAUSE_S)
            return []
        try:
            self._held.hold({key: value for key, value in spec.items() if key != "ahead"})
        except (OSError, KeyError, TypeError) as error:  # its lease expires
            log.exception("a claimed step cannot be stored")
            raise ControlPlaneUnavailable("a claimed step cannot be stored") from error
        return [spec]

    def renew(
        self,
        jobs: Sequence[Job],
        usage: Mapping[Job, StepUsage] = NO_USAGE,
        probes: Mapping[Job, ProbeProgress] = NO_PROBES,
    ) -> Sequence[JobDirective | None]:
        return [self._lease(job, usage.get(job), probes.get(job)) for job in jobs]

    def _lease(
        self, job: Job, usage: StepUsage | None = None, probe: ProbeProgress | None = None
    ) -> JobDirective | None:
        """Renew a lease on the calling thread; return None if it is lost."""
        body = {
            **self._of(job),
            **({"usage": _usage(usage)} if usage else {}),
            **({"probe": _probe(probe)} if probe else {}),
        }
        try:
            answer = self._client.post_blocking(_path(job, "lease"), body, DirectiveAnswer)
            return _directive_of(answer)
        except RequestRefused:
            if usage is None and probe is None:
                raise
            log.exception(
                "the usage or probe of %s was refused; the lease is renewed without", job.job_id
            )
            return self._lease(job)
        except StaleJob:
            self._held.release(job)
            return None

    def on_directive(self, wake: Callable[[], None]) -> None:
        self._stop_poller = StopPoller(self._held.one_per_run, self._lease, wake)
        self._stop_poller.start()

    async def report(self, report: StateReport) -> JobDirective:
        message = {"message": _text(report.message)} if report.message else {}
        return await self._report(report.job, "state", {"state": report.state} | message)

    async def send(self, chunk: LogChunk) -> JobDirective:
        facts = {
            "seq": chunk.seq,
            "position": chunk.position,
            "lines": [_line(line) for line in chunk.lines],
        }
        return await self._report(chunk.job, "logs", facts)

    async def complete(self, completion: Completion) -> None:
        facts = {
            "status": completion.status,
            "error": _text(completion.error),
            "reason": completion.reason,
            "exitCode": completion.exit_code,
            "finalSeq": completion.final_seq,
            "usage": _usage(completion.usage) if completion.usage else None,
            "missingArtifacts": [
                {"path": _text(each.path), "hint": _text(each.hint)}
                for each in completion.missing_artifacts
            ]
            or None,
        }
        given = {key: value for key, value in facts.items() if value not in ("", None)}
        await self._report(completion.job, "complete", given)
        self._held.release(completion.job)

    async def content(self, job: Job) -> bytes:
        """Raises RequestRefused if the files do not match the digest of the step spec."""
        response = await self._client.call(
            "GET",
            _path(job, "content"),
            params={"attempt": job.attempt},
            deadline_s=_BYTES_S,
        )
        spec = self._held.spec(job) or {}
        wanted = spec.get("content", {}).get("digest") or response.headers.get("Digest")
        if wanted != f"sha256:{hashlib.sha256(response.content).hexdigest()}":
            raise RequestRefused("the suite's files do not match the digest of the step spec")
        return response.content

    async def store(self, job: Job, upload: ArtifactUpload) -> None:
        facts = {
            "attempt": str(job.attempt),
            "path": upload.path,
            "name": upload.name,
            "format": upload.format,
            "on": upload.on,
        }
        await self._client.call(
            "POST",
            _path(job, "artifacts"),
            params={key: value for key, value in facts.items() if value},
            content=upload.body,
            media_type=upload.media_type,
            deadline_s=_BYTES_S,
        )

    async def close(self) -> None:
        if self._stop_poller:
            await asyncio.to_thread(self._stop_poller.stop)
        await self._client.close()

    def _of(self, job: Job) -> dict[str, object]:
        return {"agentId": self._registration.agent_id, "attempt": job.attempt}

    async def _report(self, job: Job, what: str, facts: Mapping[str, object]) -> JobDirective:
        try:
            body = {**self._of(job), **facts}
            return _directive_of(await self._client.post(_path(job, what), body, DirectiveAnswer))
        except StaleJob:
            self._held.release(job)
            raise


async def _never() -> Sequence[Mapping[str, Any]]:
    await asyncio.Event().wait()
    return []


def _path(job: Job, what: str) -> str:
    return f"/agent-control/jobs/{job.job_id}/{what}"


def _line(line: LogLine) -> dict[str, object]:
    wire: dict[str, object] = {
        "time": clock.rfc3339(line.time),
        "level": line.level,
        "kind": line.kind,
        "text": line.text.replace("\0", "\ufffd"),  # no text of the protocol holds NUL
    }
    if line.continued:
        wire["continued"] = True
    return wire


def _usage(usage: StepUsage) -> dict[str, float]:
    figures = {
        "cpuPercent": usage.cpu_percent,
        "memoryBytes": usage.memory_bytes,
        "memoryPeakBytes": usage.memory_peak_bytes,
    }
    return {name: figure for name, figure in figures.items() if figure is not None}


def _probe(probe: ProbeProgress) -> dict[str, object]:
    return {"answer": probe.answer, "tries": probe.tries, "timeLeftMs": probe.time_left_ms}


def _text(text: str) -> str:
    return text[:_TEXT].replace("\0", "\ufffd")


def _directive_of(answer: DirectiveAnswer) -> JobDirective:
    return JobDirective(
        cancel_reason=answer.cancel_reason or "", lease_grace_s=_seconds(answer.lease_grace_ms)
    )


def _seconds(milliseconds: float | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000
