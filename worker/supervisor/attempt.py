"""One attempt of a step while it runs: its unit, its log, its usage and the directives for it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Final

from kernel import clock
from kernel.agent_protocol import AdoptedJob, Job, JobDirective, StateReport, StepUsage
from kernel.background import keep_running
from kernel.redaction import Redactor
from worker.domain.control_plane import RENEWALS, Reports, RequestRefused
from worker.domain.evaluation import LogMatches
from worker.domain.launch import LaunchRules, launch_of
from worker.domain.masked_output import LineCutter, LogWatch
from worker.domain.ownership import UnitOwner
from worker.domain.runtime import Launch, Runtime, RuntimeFailure, Unit
from worker.domain.step_spec import StepSpec
from worker.domain.suite_files import SuiteFiles
from worker.supervisor.probe_progress import ProbeWatch
from worker.supervisor.readiness_prober import ReadinessProber
from worker.supervisor.spool import SpoolSpace
from worker.supervisor.step_log import LogPosition, StepLog
from worker.supervisor.waits import cancel_all, retry_until_answered, set_once

log = logging.getLogger("partita.workers")
FIRST_SAMPLE_S: Final = 1.0  # after the start, so that steps of a few seconds have figures too
SAMPLE_TIMEOUT_S: Final = 5.0


class UsageSampler:
    """Reads a unit's usage periodically; `latest` may be read on any thread.

    A reading that fails or takes too long is left out.
    """

    def __init__(self, runtime: Runtime, unit: Unit, *, interval_s: float) -> None:
        self._runtime = runtime
        self._unit = unit
        self._interval_s = interval_s
        self.latest: StepUsage | None = None

    async def run(self) -> None:
        """Sample until canceled."""
        await asyncio.sleep(min(FIRST_SAMPLE_S, self._interval_s))
        while True:
            await self._sample()
            await asyncio.sleep(self._interval_s)

    async def _sample(self) -> None:
        try:
            async with asyncio.timeout(SAMPLE_TIMEOUT_S):
                usage = await self._runtime.usage(self._unit)
        except (RuntimeFailure, TimeoutError) as failure:
            log.debug("the usage of %s cannot be read: %r", self._unit.name, failure)
            return
        if usage:
            before = self.latest.memory_peak_bytes if self.latest else None
            known = [usage.memory_bytes, usage.memory_peak_bytes, before]
            peak = max((size for size in known if size is not None), default=None)
            self.latest = replace(usage, memory_peak_bytes=peak)


@dataclass(frozen=True, slots=True, kw_only=True)
class SupervisorOptions:
    """`capacity`: steps at once; services, which wait most of the time, do not count.

    `starts_ahead`: units of steps that may come next.
    """

    owner: UnitOwner
    state_dir: Path
    rules: LaunchRules = field(default_factory=LaunchRules)
    capacity: int = 64
    lease_s: float = 30.0
    starts_ahead: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class StepContext:
    """The objects that all steps of a supervisor share."""

    control_plane: Reports
    runtime: Runtime
    options: SupervisorOptions
    space: SpoolSpace
    prober: ReadinessProber
    report_probe: Callable[[Job], None] = lambda _job: None  # soon
    files: SuiteFiles = field(default_factory=SuiteFiles)


def plan_launch(
    spec: StepSpec,
    context: StepContext,
    *,
    step_files: bytes | None = None,
    holder: Job | None = None,
) -> Launch:
    """Return the launch of a step; the files of its suite are fetched when they are needed.

    `step_files` (tar+gzip) replace them in the directory of the step. `holder`: the job that is
    held here and whose suite has the same files, by default that of the step. Raises
    CommandInvalid.
    """
    job = holder or Job(job_id=spec.job_id, attempt=spec.attempt)

    async def fetch() -> bytes:
        return await retry_until_answered(lambda: context.control_plane.content(job))

    launch = launch_of(
        spec,
        context.options.rules,
        context.options.owner,
        folders=lambda name, space: context.runtime.folders(name=name, workspace=space),
        fetch=lambda: context.files.get(spec.content_digest, fetch),
        started_at=clock.rfc3339(clock.now()),
    )
    return replace(launch, step_files=step_files)


class StepAttempt:
    """`kept`: the state in which an earlier process left it; None for a new attempt."""

    def __init__(
        self, spec: StepSpec, context: StepContext, kept: AdoptedJob | None = None
    ) -> None:
        self.spec = spec
        self.context = context
        self.job = Job(job_id=spec.job_id, attempt=spec.attempt)
        self.adopted = kept is not None
        self.stop_requested: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.confirmed = asyncio.Event()  # cleared: the claim may be older than its lease
        self.confirmed.set()
        self.stop_reason = ""
        self.probe_problem = ""  # why the last probe did not pass
        self.unit: Unit | None = None
        self.has_unit = asyncio.Event()
        self._reading: asyncio.Task[None] | None = None
        self._reporting: asyncio.Task[None] | None = None
        self._sampler: UsageSampler | None = None
        self._sampling: asyncio.Task[None] | None = None
        ready_log = spec.node.ready.log if spec.node.ready else None
        watched = (*spec.evaluation.expect_logs, *spec.evaluation.fail_on_logs)
        watch = LogWatch(watched if ready_log is None else (*watched, ready_log))
        self.log = StepLog(
            context.control_plane,
            self.job,
            context.space,
            cutter=LineCutter(Redactor(spec.secrets), watch),
            start=LogPosition(next_seq=kept.next_seq, position=kept.position)
            if kept
            else LogPosition(),
            apply_directive=self.apply_directive,
        )
        self.probing = ProbeWatch(
            report_soon=partial(context.report_probe, self.job), mask=self.log.mask
        )

    def apply_directive(self, directive: JobDirective) -> None:
        self.confirmed.set()
        if directive.cancel_reason and not self.stop_reason:
            self.stop_reason = directive.cancel_reason
            set_once(self.stop_requested)

    @property
    def running_unit(self) -> Unit:
        if self.unit is None:
            raise LookupError("no unit was started")
        return self.unit

    def note_probe(self, problem: str) -> None:
        self.probe_problem = problem
        self.probing.note(problem)

    def follow(self, unit: Unit) -> None:
        """Start to read the unit's output and to sample its usage, and no longer those of another.

        The other one never began: it wrote nothing.
        """
        for task in (self._reading, self._sampling):
            if task:
                task.cancel()
        self.unit = unit
        self.has_unit.set()
        reading = self.log.read(self.context.runtime, unit)
        self._reading = asyncio.create_task(reading, name=f"read {unit.name}")
        if self.spec.measured:
            interval_s = self.spec.lease_ms / 1000 / RENEWALS
            self._sampler = UsageSampler(self.context.runtime, unit, interval_s=interval_s)
            sampling = asyncio.create_task(
                keep_running("samples", self._sampler.run), name=f"sample {unit.name}"
            )
            self._reading.add_done_callback(lambda _: sampling.cancel())
            self._sampling = sampling

    @property
    def usage(self) -> StepUsage | None:
        """The latest figures; may be read on any thread."""
        return self._sampler.latest if self._sampler else None

    async def until_output_ends(self) -> None:
        """Wait until the whole output is read. Raises RuntimeFailure."""
        if self._reading:
            await self._reading

    async def close(self) -> None:
        tasks = (self._reading, self._reporting, self._sampling)
        await cancel_all([task for task in tasks if task])
        await self.log.close()

    async def report_running(self, on_end: Callable[[asyncio.Task[None]], None]) -> None:
        """Report `running`; wait for the answer only if a later report could overtake it."""
        self._reporting = asyncio.create_task(self.report("running"))
        self._reporting.add_done_callback(on_end)
        if not self.context.control_plane.in_order:
            await self._reporting

    async def until_reported(self) -> None:
        """Wait until all reports so far are stored; raise the error of one that is not."""
        await self.log.sending
        if self._reporting:
            await self._reporting

    async def report(self, state: str, message: str = "") -> None:
        report = StateReport(job=self.job, state=state, message=self.log.mask(message))
        control_plane = self.context.control_plane
        self.apply_directive(await retry_until_answered(lambda: control_plane.report(report)))

    async def report_wait(self, sentence: str) -> None:
        """Report what keeps the unit from its start, "" once nothing does."""
        try:
            await self.report("waiting", sentence)
        except RequestRefused as error:  # by a control plane that does not know this state yet
            log.info("what %s waits for cannot be reported: %s", self.job.job_id, error)

    def log_matches(self) -> LogMatches:
        rules = self.spec.evaluation
        return self.log.watch.matches(expected=rules.expect_logs, forbidden=rules.fail_on_logs)

    @property
    def age_s(self) -> float:
        """Seconds since the unit started, even if an earlier process started it."""
        started = self.running_unit.started_at
        return max(0.0, (clock.now() - started).total_seconds()) if started else 0.0

    def health_mark(self, unit: Unit) -> Path:
        """The path of the empty file that says that the service was reported healthy."""
        return self.context.options.state_dir / "healthy" / f"{unit.name}.healthy"
