"""One attempt of a step, from its claim to its completion."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from dataclasses import replace
from typing import Final

from kernel.agent_protocol import Completion, StateReport
from worker.domain.control_plane import (
    ControlPlaneUnavailable,
    LinesMissing,
    RequestRefused,
    StaleJob,
)
from worker.domain.launch import CommandInvalid
from worker.domain.runtime import NeverBegan, RuntimeFailure, StartFailed, Unit, UnitState
from worker.supervisor.attempt import StepAttempt, plan_launch
from worker.supervisor.step_outcomes import DETACH, run_to_completion, serve
from worker.supervisor.waits import first_of, retry_until_answered, set_once

log = logging.getLogger("partita.workers")
_STARTS: Final = 3  # of an attempt whose units end before their program began


class StepRun:
    """Runs one attempt; `found`: the unit that an earlier process started for it.

    `step_files` (tar+gzip) replace the suite's files in the directory of the step.
    """

    def __init__(
        self,
        attempt: StepAttempt,
        found: Unit | None = None,
        *,
        step_files: bytes | None = None,
    ) -> None:
        self.attempt = attempt
        self._found = found
        self._step_files = step_files
        self._dropped: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._gives_up = False
        self._may_have_started = False
        self._left_to_people = False  # the ended unit is, whoever has the job now
        attempt.log.sending.add_done_callback(self._when_reporting_ends)

    @property
    def run_id(self) -> str:
        return self.attempt.spec.execution_id

    def drop(self) -> None:
        """Remove the unit and report nothing: another supervisor has the job, or it is over."""
        set_once(self._dropped)

    def give_up(self) -> None:
        """Remove the unit and report it: the lease has expired by this process's clock."""
        self._gives_up = True
        set_once(self._dropped)

    def _when_reporting_ends(self, reporting: asyncio.Task[None]) -> None:
        if not reporting.cancelled() and reporting.exception():
            self.drop()

    async def run(self) -> None:
        """Run to completion; a cancellation leaves the unit to the next process."""
        try:
            if await first_of(dropped=self._dropped, over=self._run()) == "dropped":
                await self._remove()
                if self._gives_up:
                    await self._report_given_up()
        except StaleJob:
            await self._remove()
        finally:
            await self.attempt.close()

    async def _run(self) -> None:
        outcome = await self._outcome()
        stays = self._unit_stays(outcome)
        self._left_to_people = stays and self.attempt.stop_reason != DETACH
        await self._complete(outcome)
        if not stays:
            await self._remove()

    def _unit_stays(self, outcome: Completion) -> bool:
        """Return whether the unit is left to people who look at the environment of the run."""
        if self.attempt.stop_reason == DETACH:
            return True
        return self.attempt.spec.keeps_unit and outcome.outcome != "canceled"

    async def _outcome(self) -> Completion:
        try:
            for _start in range(_STARTS - 1):
                with suppress(NeverBegan):
                    return await self._run_once()
                self._found = None
            return await self._run_once()
        except RuntimeFailure as failure:
            return self._fail(failure.reason, failure)
        except (CommandInvalid, ValueError) as error:
            return self._fail("internal_error", error)
        except (StaleJob, asyncio.CancelledError):
            raise
        except Exception as error:
            log.exception("the supervisor failed to run %s", self.attempt.job.job_id)
            return self._fail("internal_error", error)

    async def _run_once(self) -> Completion:
        """Run the unit to its end. Raises NeverBegan if another one can be started in its place."""
        if not await self._begin():
            return Completion(job=self.attempt.job, status="canceled", reason="canceled")
        run = serve if self.attempt.spec.is_service else run_to_completion
        return await run(self.attempt)

    def _fail(self, reason: str, error: Exception) -> Completion:
        exit_code = error.exit_code if isinstance(error, StartFailed) else None
        if exit_code is not None and self.attempt.spec.is_service:
            reason = "service_exited"
        text = self.attempt.log.mask(str(error)) or type(error).__name__
        return Completion(
            job=self.attempt.job, status="failed", reason=reason, error=text, exit_code=exit_code
        )

    async def _begin(self) -> bool:
        """Start the unit and follow its output; return False if the job is to stop before."""
        attempt, runtime = self.attempt, self.attempt.context.runtime
        if attempt.adopted:
            await attempt.report("adopted")
        unit = self._found
        if unit is None or unit.state is UnitState.CREATED:
            await attempt.confirmed.wait()
            launch = plan_launch(attempt.spec, attempt.context, step_files=self._step_files)

            async def report_pull(image: str) -> None:
                await attempt.report("image-pull", f"pulling {image}")

            prepared = runtime.prepare(launch, pulling=report_pull, waiting=attempt.report_wait)
            if await first_of(stop=attempt.stop_requested, prepared=prepared) == "stop":
                return False
            self._may_have_started = True
            unit = await runtime.start(launch)
        attempt.follow(unit)
        await attempt.report_running(self._when_reporting_ends)
        return True

    async def _complete(self, outcome: Completion) -> None:
        attempt, control_plane = self.attempt, self.attempt.context.control_plane
        final_seq = await attempt.log.finish()
        completion = replace(outcome, final_seq=final_seq, usage=attempt.usage)

        async def complete() -> None:
            await control_plane.complete(completion)

        try:
            if control_plane.in_order:
                with suppress(ControlPlaneUnavailable, LinesMissing):
                    await complete()
                    return
            await attempt.until_reported()  # earlier reports may be lost: they go first
            await retry_until_answered(complete)
        except (RequestRefused, LinesMissing):
            log.exception("the completion of %s was refused", attempt.job.job_id)

    async def _report_given_up(self) -> None:
        """Report the job as canceled, and as started if it may have: it must not run twice."""
        job, control_plane = self.attempt.job, self.attempt.context.control_plane
        started = StateReport(job=job, state="running")
        given_up = Completion(job=job, status="canceled", reason="canceled", final_seq=0)
        try:
            if self._may_have_started or self._found:
                await retry_until_answered(lambda: control_plane.report(started))
            await retry_until_answered(lambda: control_plane.complete(given_up))
        except (RequestRefused, LinesMissing, StaleJob) as error:
            log.info("%s already belongs to another supervisor: %s", job.job_id, error)

    async def _remove(self) -> None:
        """Remove the unit, unless it has ended and is left to people.

        While the answer to its completion is on the way, a renewal hears that the job is not ours.
        """
        attempt = self.attempt
        unit = attempt.unit or self._found
        if unit is None or self._left_to_people:
            return
        try:
            await attempt.context.runtime.remove(unit)
        except RuntimeFailure as failure:
            log.warning("%s is not removed until the teardown of its run: %s", unit.name, failure)
        attempt.health_mark(unit).unlink(missing_ok=True)
