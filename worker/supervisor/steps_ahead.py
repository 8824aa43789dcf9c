"""Units of steps that may come next, started ahead while the steps that they wait for run.

Only a hint of the control plane leads here, and all of it may be lost without harm: a step runs
when it is claimed, with or without what was started ahead. (reference: control-plane 14.3,
decision 0060)
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from kernel.agent_protocol import Job
from kernel.errors import InvalidInput
from worker.domain.control_plane import ControlPlaneError
from worker.domain.launch import CommandInvalid
from worker.domain.runtime import RuntimeFailure
from worker.domain.step_spec import StepSpec, parse_step_spec
from worker.supervisor.attempt import StepAttempt, StepContext, plan_launch
from worker.supervisor.waits import cancel_all

log = logging.getLogger("partita.workers")
LINGER_S: Final = 10.0  # after the end of what a step waited for; then it does not come soon
_LEAVE_S: Final = 5.0


@dataclass(slots=True)
class _ExpectedStep:
    """A step that may come; `behind`: the jobs that run here and that it may wait for."""

    spec: StepSpec
    behind: set[Job] = field(default_factory=set)
    starting: asyncio.Task[None] | None = None
    leaving: asyncio.TimerHandle | None = None

    def stop_timer(self) -> None:
        if self.leaving:
            self.leaving.cancel()
            self.leaving = None


class StepsAhead:
    """The units that a supervisor has started ahead, at most as many as its options say."""

    def __init__(self, context: StepContext) -> None:
        self._context = context
        limit = context.options.starts_ahead if context.runtime.starts_ahead else 0
        self._limit = limit
        self._expected: dict[Job, _ExpectedStep] = {}
        self._taken: dict[Job, _ExpectedStep] = {}  # by steps that run now
        self._removals: set[asyncio.Task[None]] = set()

    def expect(
        self, bodies: Sequence[Mapping[str, Any]], attempt: StepAttempt, *, behind: Collection[Job]
    ) -> None:
        """Start the units of these steps ahead once that of the attempt has started.

        `behind`: the jobs of the run that they may wait for.
        """
        for body in bodies:
            try:
                spec = parse_step_spec(body)
            except InvalidInput as error:
                log.info("a step is not started ahead: %s", error)
                continue
            self._expect(spec, attempt, behind)

    def _expect(self, spec: StepSpec, attempt: StepAttempt, behind: Collection[Job]) -> None:
        job = Job(job_id=spec.job_id, attempt=spec.attempt)
        expected = self._expected.get(job)
        if expected is None:
            if not self._has_room():
                return
            expected = self._expected[job] = _ExpectedStep(spec)
            starting = self._start_behind(spec, attempt)
            name = f"start {spec.job_id} ahead"
            expected.starting = asyncio.create_task(starting, name=name)
        expected.behind.update(behind)
        expected.stop_timer()

    def _has_room(self) -> bool:
        """Return whether one more may be started; what is about to leave gives way."""
        if len(self._expected) >= self._limit:
            leaving = [job for job, each in self._expected.items() if each.leaving]
            for job in leaving[:1]:
                self._leave(job)
        return len(self._expected) < self._limit

    async def _start_behind(self, spec: StepSpec, attempt: StepAttempt) -> None:
        """Leave the machine to the step that runs until it has started."""
        await attempt.has_unit.wait()
        has_same_files = spec.content_digest == attempt.spec.content_digest
        if not await self._start(spec, holder=attempt.job if has_same_files else None):
            self._expected.pop(Job(job_id=spec.job_id, attempt=spec.attempt), None)

    async def _start(self, spec: StepSpec, *, holder: Job | None) -> bool:
        try:
            launch = plan_launch(spec, self._context, holder=holder)
            return await self._context.runtime.start_ahead(launch)
        except (RuntimeFailure, ControlPlaneError, CommandInvalid, ValueError) as error:
            log.info("%s is not started ahead: %s", spec.job_id, error)
            return False

    def take(self, job: Job) -> None:
        """Let a step that is claimed have what was started for it, whatever else ends."""
        if expected := self._expected.pop(job, None):
            self._taken[job] = expected
            expected.stop_timer()
            if expected.starting and not expected.starting.done():
                expected.starting.cancel()  # what the runtime has begun it finishes

    def end(self, job: Job) -> None:
        """Remove what was started for a step that has ended, and soon what waited for its end."""
        if own := self._taken.pop(job, None):
            self._remove_later(own)
        for other, expected in self._expected.items():
            expected.behind.discard(job)
            if not expected.behind and not expected.leaving:
                loop = asyncio.get_running_loop()
                expected.leaving = loop.call_later(LINGER_S, self._leave, other)

    def _leave(self, job: Job) -> None:
        if expected := self._expected.pop(job, None):
            self._remove_later(expected)

    def _remove_later(self, expected: _ExpectedStep) -> None:
        expected.stop_timer()
        name = f"remove {expected.spec.job_id} ahead"
        task = asyncio.create_task(self._remove_ahead(expected), name=name)
        self._removals.add(task)
        task.add_done_callback(self._removals.discard)

    async def _remove_ahead(self, expected: _ExpectedStep) -> None:
        spec = expected.spec
        if expected.starting:
            await cancel_all([expected.starting])
        try:
            await self._context.runtime.remove_ahead(spec.execution_id, spec.node.id)
        except RuntimeFailure as failure:
            log.warning("what was started ahead for %s goes with its run: %s", spec.job_id, failure)

    async def close(self) -> None:
        """Remove everything, if that does not take long; the rest ends with this process."""
        for job in list(self._expected):
            self._leave(job)
        if self._removals:
            _, late = await asyncio.wait(set(self._removals), timeout=_LEAVE_S)
            await cancel_all(list(late))
