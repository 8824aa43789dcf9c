"""The supervisor: claims steps, runs many at once and reports them (docs/architecture.md).

It reaches the control plane and the runtime through ports. Its process may end at any moment; the
next process of the same name finds the units by label and continues.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from kernel.agent_protocol import (
    AdoptedJob,
    Completion,
    Job,
    JobDirective,
    ProbeProgress,
    StepUsage,
)
from kernel.background import keep_running, one_cycle
from kernel.errors import InvalidInput
from worker.domain import ownership
from worker.domain.control_plane import ControlPlane, ControlPlaneError, RegistrationResult
from worker.domain.runtime import Runtime, RuntimeFailure, Unit
from worker.domain.step_spec import StepSpec, parse_step_spec
from worker.supervisor.attempt import StepAttempt, StepContext, SupervisorOptions
from worker.supervisor.lease_keeper import LeaseKeeper, now_s
from worker.supervisor.readiness_prober import ReadinessProber
from worker.supervisor.spool import DISK_BYTES, SpoolSpace
from worker.supervisor.step_run import StepRun
from worker.supervisor.steps_ahead import StepsAhead
from worker.supervisor.supervisor_heartbeat import SupervisorHeartbeat
from worker.supervisor.waits import first_of, retry_until_answered

log = logging.getLogger("partita.workers")


class Supervisor:
    """Runs until `stop()`; then its units are left to the next process."""

    def __init__(
        self, control_plane: ControlPlane, runtime: Runtime, options: SupervisorOptions
    ) -> None:
        self._control_plane = control_plane
        self._runtime = runtime
        self._options = options
        self._prober = ReadinessProber(runtime)
        self._context = StepContext(
            control_plane=control_plane,
            runtime=runtime,
            options=options,
            space=SpoolSpace(
                options.state_dir / "spool", limit=0 if control_plane.in_order else DISK_BYTES
            ),
            prober=self._prober,
            report_probe=lambda job: self._leases.report_soon(job),  # noqa: PLW0108 - made below
        )
        self._ahead = StepsAhead(self._context)
        self._runs: dict[Job, StepRun] = {}
        self._tasks: dict[Job, asyncio.Task[None]] = {}
        self._declining: set[asyncio.Task[None]] = set()
        self._room = asyncio.Condition()
        self._stopping = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._leases = LeaseKeeper(
            control_plane,
            usage=self._usage_of,
            probe=self._probe_of,
            on_directive=self._in_loop(self._apply_directive),
            on_expired=self._in_loop(self._expire),
            lease_s=options.lease_s,
        )
        self._heartbeat = SupervisorHeartbeat(
            control_plane, runtime, options.owner, register=self.register
        )

    async def run(self) -> None:
        """Register, adopt, then claim until stopped."""
        self._leases.start()
        self._control_plane.on_directive(self._leases.renew_soon)
        registered = retry_until_answered(self.register)
        if await first_of(stop=self._stopping.wait(), registered=registered) == "stop":
            await self._leave([*self._tasks.values(), *self._declining])
            return
        tasks: set[asyncio.Task[Any]] = {
            asyncio.create_task(self._stopping.wait()),
            *(
                asyncio.create_task(keep_running(name, work, passing=(ControlPlaneError,)))
                for name, work in (
                    ("heartbeat", partial(self._heartbeat.run, self._facts)),
                    ("claims", self._claim_forever),
                )
            ),
        }
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            await self._leave([*tasks, *self._tasks.values(), *self._declining])

    def stop(self) -> None:
        """End `run()`. Call it on the loop's own thread."""
        self._stopping.set()

    def cancel(self, job_id: str = "") -> bool:
        """Cancel that job, or all jobs; return False if there is none."""
        steps = [step for job, step in self._runs.items() if job_id in ("", job.job_id)]
        for step in steps:
            step.attempt.apply_directive(JobDirective(cancel_reason="canceled"))
        return bool(steps)

    async def until_idle(self, job_id: str = "") -> None:
        """Wait until that job, or every job, has ended here."""
        async with self._room:
            await self._room.wait_for(
                lambda: not any(job_id in ("", job.job_id) for job in self._runs)
            )

    @property
    def jobs(self) -> tuple[Job, ...]:
        return tuple(self._runs)

    async def _leave(self, tasks: Sequence[asyncio.Task[Any]]) -> None:
        await asyncio.to_thread(self._leases.stop)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._ahead.close()
        await self._prober.close()

    async def register(self) -> None:
        """Report the jobs that run here, adopt the ones to keep and drop the rest.

        Raises ControlPlaneUnavailable.
        """
        found = await self._find_units()
        mine = [Job(job_id=job.job_id, attempt=job.attempt) for job in self._runs]
        active = list(dict.fromkeys([*found, *mine]))
        available = await self._runtime.ping()
        asked_at = now_s()
        answer = await self._control_plane.register(active, runtime_available=available)
        self._heartbeat.interval_s = answer.heartbeat_s
        self._leases.grace_s = answer.lease_grace_s
        self._adopt(answer, found, asked_at)
        await self._drop(answer, found)

    async def _find_units(self) -> dict[Job, Unit]:
        try:
            units = await self._runtime.find(self._options.owner)
        except RuntimeFailure as failure:
            log.warning("units of an earlier process cannot be listed: %s", failure)
            return {}
        return {
            Job(job_id=labels[ownership.JOB_ID], attempt=int(labels[ownership.ATTEMPT])): unit
            for unit in units
            if ownership.JOB_ID in (labels := unit.labels)
        }

    def _adopt(
        self, answer: RegistrationResult, found: Mapping[Job, Unit], asked_at: float
    ) -> None:
        for kept in answer.keep:
            if kept.job not in self._runs:
                unit = found.get(kept.job)
                self._take(kept.spec, kept=kept, found=unit, asked_at=asked_at)

    async def _drop(self, answer: RegistrationResult, found: Mapping[Job, Unit]) -> None:
        for job, unit in found.items():
            if job.job_id in answer.drop and job not in self._runs:
                await self._remove(unit)
        for job in [job for job in self._runs if job.job_id in answer.drop]:
            self._runs[job].drop()

    async def _remove(self, unit: Unit) -> None:
        try:
            await self._runtime.remove(unit)
        except RuntimeFailure as failure:
            log.warning("%s cannot be removed: %s", unit.name, failure)

    def _start(
        self,
        spec: StepSpec,
        *,
        kept: AdoptedJob | None = None,
        found: Unit | None = None,
        asked_at: float,
    ) -> StepAttempt:
        attempt = StepAttempt(spec, self._context, kept)
        step = StepRun(attempt, found)
        self._runs[attempt.job] = step
        self._ahead.take(attempt.job)
        lease_s = spec.lease_ms / 1000
        self._leases.hold(attempt.job, lease_s=lease_s)
        if now_s() - asked_at > lease_s:  # this host may have slept with the answer unread:
            attempt.confirmed.clear()  # the step starts once its lease is renewed
            self._leases.renew_soon()
        self._tasks[attempt.job] = asyncio.create_task(self._run_step(step), name=spec.job_id)
        return attempt

    async def _run_step(self, step: StepRun) -> None:
        job, spec = step.attempt.job, step.attempt.spec
        try:
            await step.run()
        except Exception:
            log.exception("the run of %s failed; its unit may remain", job.job_id)
        finally:
            self._leases.release(job)
            self._ahead.end(job)
            del self._runs[job], self._tasks[job]
            async with self._room:
                self._room.notify_all()
        self._heartbeat.note_step_end(spec.execution_id)

    @property
    def _free(self) -> int:
        busy = sum(1 for step in self._runs.values() if not step.attempt.spec.is_service)
        return self._options.capacity - busy

    async def _claim_forever(self) -> None:
        while True:
            async with self._room:
                await self._room.wait_for(lambda: self._free > 0)
            asked_at = now_s()
            with one_cycle():
                claimed = await retry_until_answered(lambda: self._control_plane.claim(self._free))
            for body in claimed:
                self._take(body, asked_at=asked_at)

    def _take(
        self,
        body: Mapping[str, Any],
        *,
        kept: AdoptedJob | None = None,
        found: Unit | None = None,
        asked_at: float,
    ) -> None:
        try:
            spec = parse_step_spec(body)
        except InvalidInput as error:
            log.warning("%s cannot be run: %s", body.get("jobId"), error)
            task = asyncio.create_task(self._decline(body, str(error), kept=kept, found=found))
            self._declining.add(task)
            task.add_done_callback(self._declining.discard)
        else:
            attempt = self._start(spec, kept=kept, found=found, asked_at=asked_at)
            of_run = [job for job, step in self._runs.items() if step.run_id == spec.execution_id]
            self._ahead.expect(body.get("ahead") or (), attempt, behind=of_run)

    async def _decline(
        self, body: Mapping[str, Any], why: str, *, kept: AdoptedJob | None, found: Unit | None
    ) -> None:
        """Complete an unreadable step as failed, so that nobody waits for its lease to expire."""
        job = Job(job_id=str(body.get("jobId")), attempt=body.get("attempt", 0))
        completion = Completion(
            job=job,
            status="failed",
            reason="internal_error",
            error=why,
            final_seq=kept.next_seq if kept else 0,
        )
        if found:
            await self._remove(found)
        try:
            await retry_until_answered(lambda: self._control_plane.complete(completion))
        except ControlPlaneError as error:
            log.warning("%s cannot be completed: %s", job.job_id, error)

    def _in_loop(self, call: Any) -> Any:
        def from_thread(*arguments: Any) -> None:
            self._loop.call_soon_threadsafe(call, *arguments)

        return from_thread

    def _usage_of(self, job: Job) -> StepUsage | None:
        """Return the latest usage; called on the thread of the leases."""
        step = self._runs.get(job)
        return step.attempt.usage if step else None

    def _probe_of(self, job: Job) -> ProbeProgress | None:
        """Return what the probe answered; called on the thread of the leases."""
        step = self._runs.get(job)
        return step.attempt.probing.latest if step else None

    def _apply_directive(self, job: Job, directive: JobDirective | None) -> None:
        if step := self._runs.get(job):
            if directive is None:
                step.drop()
            else:
                step.attempt.apply_directive(directive)

    def _expire(self, job: Job) -> None:
        """Give up a job whose lease expired; on a shared runtime the unit may be another's."""
        step = self._runs.get(job)
        if step and self._runtime.shared:
            self._tasks[job].cancel()
        elif step:
            log.warning("the lease of %s was not renewed in time: killed", job.job_id)
            step.give_up()

    def _facts(self) -> tuple[int, frozenset[str]]:
        """Return the number of running jobs and the runs that they belong to."""
        runs = frozenset(step.attempt.spec.execution_id for step in self._runs.values())
        return len(self._runs), runs
