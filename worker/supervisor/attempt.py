"""One attempt of a step while it runs: its unit, its log, its usage and the directives for it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from kernel import clock
from kernel.background import keep_running
from kernel.redaction import Redactor
from worker.domain.control_plane import RENEWALS, AdoptedJob, Job, JobDirective, Reports
from worker.domain.evaluation import LogMatches
from worker.domain.launch import LaunchRules
from worker.domain.output import LineCutter, LogWatch
from worker.domain.ownership import UnitOwner
from worker.domain.runtime import Runtime, RuntimeFailure, Unit, UnitUsage
from worker.domain.step_spec import StepSpec
from worker.supervisor.first_of import cancel_all, set_once
from worker.supervisor.readiness_prober import ReadinessProber
from worker.supervisor.retry import retry_until_answered
from worker.supervisor.spool import SpoolSpace
from worker.supervisor.step_log import LogPosition, StepLog

log = logging.getLogger("partita.workers")
FIRST_SAMPLE_S: Final = 1.0  # after the start, so that steps of a few seconds have figures too
SAMPLE_TIMEOUT_S: Final = 5.0


class UsageSampler:
    """`latest` may be read on any thread; who reports it never waits for a look.

    A look that fails or takes too long is only missing.
    """

    def __init__(self, runtime: Runtime, unit: Unit, *, each_s: float) -> None:
        self._runtime = runtime
        self._unit = unit
        self._each_s = each_s
        self.latest: UnitUsage | None = None

    async def run(self) -> None:
        """Until canceled."""
        pause_s = min(FIRST_SAMPLE_S, self._each_s)
        while True:
            await asyncio.sleep(pause_s)
            await self._look()
            pause_s = self._each_s

    async def _look(self) -> None:
        try:
            async with asyncio.timeout(SAMPLE_TIMEOUT_S):
                seen = await self._runtime.usage(self._unit)
        except (RuntimeFailure, TimeoutError) as failure:
            log.debug("what %s uses is not known now: %r", self._unit.name, failure)
            return
        if seen:
            self.latest = replace(seen, memory_peak_bytes=self._peak(seen))

    def _peak(self, seen: UnitUsage) -> int:
        """The highest of all looks, and what the runtime itself has seen between them."""
        before = self.latest.memory_peak_bytes if self.latest else None
        return max(seen.memory_bytes, seen.memory_peak_bytes or 0, before or 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepContext:
    """What all steps of a supervisor share."""

    control_plane: Reports
    runtime: Runtime
    owner: UnitOwner
    rules: LaunchRules
    space: SpoolSpace
    prober: ReadinessProber
    marks: Path  # an empty file for each service that was reported healthy


class StepAttempt:
    """`kept`: where an earlier process of this supervisor stopped; None for a new attempt."""

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
        self._unit: Unit | None = None
        self._reading: asyncio.Task[None] | None = None
        self._reporting: asyncio.Task[None] | None = None
        self._sampler: UsageSampler | None = None
        self._sampling: asyncio.Task[None] | None = None
        self.log = StepLog(
            context.control_plane,
            self.job,
            context.space,
            cutter=LineCutter(Redactor(spec.secrets), LogWatch(_watched(spec))),
            start=LogPosition(next_seq=kept.next_seq, position=kept.position)
            if kept
            else LogPosition(),
            apply_directive=self.apply_directive,
        )

    def apply_directive(self, directive: JobDirective) -> None:
        self.confirmed.set()
        if directive.cancel_reason and not self.stop_reason:
            self.stop_reason = directive.cancel_reason
            set_once(self.stop_requested)

    @property
    def unit(self) -> Unit:
        if self._unit is None:
            raise LookupError("nothing was started")
        return self._unit

    @property
    def has_unit(self) -> bool:
        return self._unit is not None

    def note_probe(self, problem: str) -> None:
        self.probe_problem = problem

    def follow(self, unit: Unit) -> None:
        """From now on the unit's output is read, and what it uses is looked at."""
        self._unit = unit
        reading = self.log.read(self.context.runtime, unit)
        self._reading = asyncio.create_task(reading, name=f"read {unit.name}")
        if self.spec.measured:
            self._sample(unit, self._reading)

    def _sample(self, unit: Unit, reading: asyncio.Task[None]) -> None:
        """As long as there may be output: it ends with the unit."""
        each_s = self.spec.lease_ms / 1000 / RENEWALS
        self._sampler = UsageSampler(self.context.runtime, unit, each_s=each_s)
        sampling = asyncio.create_task(
            keep_running("samples", self._sampler.run), name=f"sample {unit.name}"
        )
        reading.add_done_callback(lambda _: sampling.cancel())
        self._sampling = sampling

    @property
    def usage(self) -> UnitUsage | None:
        """The latest figures; may be read on any thread."""
        return self._sampler.latest if self._sampler else None

    async def output_end(self) -> None:
        """The whole output was read. Raises RuntimeFailure."""
        if self._reading:
            await self._reading

    async def close(self) -> None:
        tasks = (self._reading, self._reporting, self._sampling)
        await cancel_all([task for task in tasks if task])
        await self.log.close()

    async def report_running(self, on_end: Callable[[asyncio.Task[None]], None]) -> None:
        """Waits for the answer only where what follows could overtake it."""
        self._reporting = asyncio.create_task(self.report("running"))
        self._reporting.add_done_callback(on_end)
        if not self.context.control_plane.in_order:
            await self._reporting

    async def until_reported(self) -> None:
        """Everything said of it so far is stored. Raises what one of the answers was."""
        await self.log.sending
        if self._reporting:
            await self._reporting

    async def report(self, state: str, message: str = "") -> None:
        control_plane = self.context.control_plane
        text = self.log.mask(message)
        self.apply_directive(
            await retry_until_answered(lambda: control_plane.report(self.job, state, text))
        )

    def log_matches(self) -> LogMatches:
        rules = self.spec.evaluation
        return self.log.watch.failures(expected=rules.expect_logs, forbidden=rules.fail_on_logs)

    @property
    def age_s(self) -> float:
        """Since the unit started; also when an earlier process of this supervisor started it."""
        started = self.unit.started_at
        return max(0.0, (clock.now() - started).total_seconds()) if started else 0.0

    @property
    def mark(self) -> Path:
        return self.context.marks / f"{self.unit.name}.healthy"


def _watched(spec: StepSpec) -> tuple[str, ...]:
    ready_log = spec.node.ready.log if spec.node.ready else None
    return (
        *spec.evaluation.expect_logs,
        *spec.evaluation.fail_on_logs,
        *((ready_log,) if ready_log is not None else ()),
    )
