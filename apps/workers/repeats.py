"""The runner's part in repeats: it runs steps again in kept environments, as it ran them before.

It takes repeats of its supervisors under a lease and runs each with the supervisor's own machinery;
only the reports go elsewhere. It looks every 2 s, and at once after a nudge.

(reference: control-plane 11.8)
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from apps.executions import api as executions
from apps.streams.api import on_store_thread
from apps.workers.control_plane.repeat_reports import RepeatReports
from apps.workers.store_loops import pause, survive_store, wakes
from kernel import ids
from kernel.background import keep_running, one_cycle
from kernel.errors import InvalidInput
from worker.domain import ownership
from worker.domain.control_plane import ControlPlaneError
from worker.domain.launch import CommandInvalid
from worker.domain.runtime import Runtime, RuntimeFailure
from worker.domain.step_spec import parse_step_spec
from worker.domain.suite_files import SuiteFiles
from worker.supervisor.attempt import (
    StepAttempt,
    StepContext,
    SupervisorOptions,
    plan_launch,
)
from worker.supervisor.readiness_prober import ReadinessProber
from worker.supervisor.spool import SpoolSpace
from worker.supervisor.step_run import StepRun
from worker.supervisor.waits import cancel_all, retry_until_answered

log = logging.getLogger("partita.workers")
POLL_S: Final = 2.0  # a wish that no nudge told is seen by then; leases are renewed as often
STOP_WITHIN_S: Final = 30.0
_READY_WITHIN_S: Final = 30.0  # of the next attempt, for which nobody waits


@dataclass(frozen=True, slots=True)
class RepeatingSupervisor:
    """A supervisor of this runner: its runtime, and how it runs steps."""

    agent_id: str
    runtime: Runtime
    options: SupervisorOptions


class RepeatLoop:
    """A background loop; `supervisors` returns the current ones."""

    def __init__(self, supervisors: Callable[[], Iterable[RepeatingSupervisor]]) -> None:
        self._supervisors = supervisors
        self._holder = str(ids.new_uuid())  # new at each start, as an incarnation
        self._recovered: set[str] = set()  # agents whose earlier process is cleaned up after
        self._tasks: dict[executions.RepeatClaim, asyncio.Task[None]] = {}
        self._steps: dict[executions.RepeatClaim, StepRun] = {}
        self._probers: dict[Runtime, ReadinessProber] = {}
        self._files = SuiteFiles()

    async def keep_repeating(self) -> None:
        """Run repeats until canceled, as a background loop; their units are left then."""
        try:
            await keep_running("repeats", self._repeat_when_asked, longest_pause_s=POLL_S)
        finally:
            await cancel_all(list(self._tasks.values()))
            for prober in self._probers.values():
                await prober.close()

    async def _repeat_when_asked(self) -> None:
        with wakes(executions.REPEATS_NUDGE) as woken:
            while True:
                with one_cycle():
                    await survive_store(self.poll, "repeats of steps")
                await pause(woken, POLL_S)

    async def poll(self) -> None:
        """Renew what runs here, and start what waits for the supervisors of this runner."""
        await self._renew()
        for supervisor in self._supervisors():
            if supervisor.agent_id not in self._recovered:
                await self._recover(supervisor)
                self._recovered.add(supervisor.agent_id)
            agent_id = supervisor.agent_id
            for claim in await on_store_thread(executions.take_repeats, agent_id, self._holder):
                task = asyncio.create_task(self._run(claim, supervisor), name=claim.repeat_id)
                self._tasks[claim] = task

    async def until_idle(self) -> None:
        """Wait until everything that was taken has ended."""
        while self._tasks:
            await asyncio.wait(list(self._tasks.values()))

    async def _renew(self) -> None:
        if not self._tasks:
            return
        answers = await on_store_thread(executions.renew_repeats, list(self._tasks))
        for claim, directive in answers.items():
            if step := self._steps.get(claim):
                if directive is None:
                    step.drop()
                else:
                    step.attempt.apply_directive(directive)

    async def _run(self, claim: executions.RepeatClaim, supervisor: RepeatingSupervisor) -> None:
        reports = RepeatReports(claim)
        try:
            problem = await self._work_on(claim, supervisor, reports)
            await retry_until_answered(lambda: reports.fail(problem))
            await self._make_next_ready(supervisor, reports)
        except ControlPlaneError as error:
            log.warning("%s is left to the sweep: %s", claim.repeat_id, error)
        finally:
            reports.close()
            self._steps.pop(claim, None)
            self._tasks.pop(claim, None)

    async def _work_on(
        self,
        claim: executions.RepeatClaim,
        supervisor: RepeatingSupervisor,
        reports: RepeatReports,
    ) -> str:
        """Run a repeat; return why it fails if its end is not stored by then."""
        try:
            prepared = await retry_until_answered(reports.prepare)
            if prepared is not None:
                await self._run_step(claim, supervisor, reports, prepared)
        except InvalidInput as error:
            return error.detail
        except ControlPlaneError:
            raise
        except Exception:
            log.exception("%s failed", claim.repeat_id)
            return "the runner failed to run it; the log of the runner says why"
        return "its end could not be stored; the log of the runner says why"

    async def _run_step(
        self,
        claim: executions.RepeatClaim,
        supervisor: RepeatingSupervisor,
        reports: RepeatReports,
        prepared: executions.PreparedRepeat,
    ) -> None:
        context = self._context(supervisor, reports)
        attempt = StepAttempt(parse_step_spec(prepared.spec), context)
        step = self._steps[claim] = StepRun(attempt, step_files=prepared.step_files)
        try:
            await step.run()
        finally:
            del self._steps[claim]

    async def _make_next_ready(
        self, supervisor: RepeatingSupervisor, reports: RepeatReports
    ) -> None:
        """Let the runtime prepare the next attempt of a step that ran again: it often follows.

        Nothing depends on it: what fails here is done at the start, where it is reported.
        """
        try:
            prepared = await reports.next_repeat()
            if prepared is None or (spec := parse_step_spec(prepared.spec)).is_service:
                return
            context = self._context(supervisor, reports)
            launch = plan_launch(spec, context, step_files=prepared.step_files)
            async with asyncio.timeout(_READY_WITHIN_S):
                await supervisor.runtime.stand_by(launch)
        except TimeoutError:
            log.info("the next attempt is not made ready within %g s", _READY_WITHIN_S)
        except (ControlPlaneError, RuntimeFailure, CommandInvalid, InvalidInput) as error:
            log.info("the next attempt is not made ready: %s", error)

    def _context(self, supervisor: RepeatingSupervisor, reports: RepeatReports) -> StepContext:
        return StepContext(
            control_plane=reports,
            runtime=supervisor.runtime,
            options=supervisor.options,
            space=SpoolSpace(supervisor.options.state_dir / "spool", limit=0),
            prober=self._prober_of(supervisor.runtime),
            files=self._files,
        )

    def _prober_of(self, runtime: Runtime) -> ReadinessProber:
        """Return the prober of a runtime; to make one takes as long as a short step."""
        if runtime not in self._probers:
            self._probers[runtime] = ReadinessProber(runtime)
        return self._probers[runtime]

    async def _recover(self, supervisor: RepeatingSupervisor) -> None:
        """End what an earlier process of the supervisor was repeating; its units are stopped.

        They stay in the environment, for people to look at.
        """
        agent_id = supervisor.agent_id
        for lost in await on_store_thread(executions.lost_repeats, agent_id, self._holder):
            try:
                async with asyncio.timeout(STOP_WITHIN_S):
                    await _stop_unit(supervisor, lost)
            except (RuntimeFailure, TimeoutError) as error:
                log.warning("%s: its unit may still run: %s", lost.claim.repeat_id, error)
            await on_store_thread(executions.end_lost_repeat, lost)


async def _stop_unit(supervisor: RepeatingSupervisor, lost: executions.LostRepeat) -> None:
    wanted = {
        ownership.RUN_ID: lost.run_id,
        ownership.STEP: lost.step_id,
        ownership.ATTEMPT: str(lost.attempt),
    }
    for unit in await supervisor.runtime.find(supervisor.options.owner):
        if wanted.items() <= unit.labels.items():
            await supervisor.runtime.stop(unit, grace_s=0)
