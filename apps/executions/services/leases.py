"""Leases: renewed by their supervisors, adopted after a restart, expired.

(reference: control-plane 15.2)
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from django.db.models import QuerySet

from apps.agents.api import heard_of, online_agents
from apps.executions import conf
from apps.executions.domain import transitions
from apps.executions.domain.agent_reports import (
    Adopted,
    Lease,
    StaleAttempt,
    SupervisorSession,
)
from apps.executions.domain.events import probes_nudge
from apps.executions.domain.retry_rules import is_irreplaceable
from apps.executions.domain.states import JobState, StepStatus
from apps.executions.domain.steps import ProbeRecord
from apps.executions.models import Execution, Step
from apps.executions.selectors.kept_environments import jobs_with_kept_units
from apps.executions.selectors.repeats import jobs_of_kept_repeats
from apps.executions.services.claims import fail_for_secrets, release_bindings, step_spec
from apps.executions.services.run_aggregate import RunAggregate, load_runs, save_runs
from apps.executions.services.run_progression import progress_run
from apps.executions.services.secrets import SecretUnresolved
from apps.observability.api import metrics
from apps.platform_settings.api import backends
from apps.streams.api import nudge, unit_of_work
from kernel import clock
from kernel.agent_protocol import (
    NO_PROBES,
    NO_USAGE,
    PROBE_ANSWER_CHARACTERS,
    AdoptedJob,
    Job,
    ProbeProgress,
    StepUsage,
)

_SHARED: Final = ("remote-docker", "kubernetes")  # backends whose units others can reach


@unit_of_work
def renew(
    supervisor: SupervisorSession,
    jobs: Sequence[Job],
    usage: Mapping[Job, StepUsage] = NO_USAGE,
    probes: Mapping[Job, ProbeProgress] = NO_PROBES,
) -> list[Lease | StaleAttempt]:
    """Renew the leases that this process still holds; the result of the others is StaleAttempt.

    Store the usage of the steps whose leases are renewed, and what their probes answered.
    """
    heard_of(supervisor.agent_id, supervisor.incarnation)
    expires_at = clock.now() + conf.lease()
    by_attempt: dict[int, list[str]] = defaultdict(list)
    for job in jobs:
        by_attempt[job.attempt].append(job.job_id)
    for attempt, job_ids in by_attempt.items():
        _steps_held_by(supervisor).filter(attempt=attempt, job_id__in=job_ids).update(
            lease_expires_at=expires_at
        )
    rows = _steps_held_by(supervisor).filter(job_id__in=[job.job_id for job in jobs])
    held = {Job(job_id=step.job_id, attempt=step.attempt): step for step in rows}
    grace = lease_grace(supervisor)
    results = [_lease_answer(held.get(job), grace) for job in jobs]
    _store_usage((held[job], usage[job]) for job in jobs if job in held and job in usage)
    _store_probes(
        {held[job].pk: (held[job], probe) for job, probe in probes.items() if job in held}
    )
    return results


def lease_grace(supervisor: SupervisorSession) -> timedelta:
    """Return how long after their end this supervisor can renew its leases at present."""
    mine = {(supervisor.agent_id, backend_id) for backend_id in supervisor.backends}
    return conf.lease_owner_patience() if _find_irreplaceable(mine) == mine else conf.lease_grace()


def adopt(supervisor: SupervisorSession, active: Sequence[Job]) -> Adopted:
    """Keep the jobs whose units a restarted supervisor has found; end its other jobs.

    Kept jobs continue with the same attempt under the new incarnation. Of the others, an attempt
    whose container was never created is queued again; the rest ends like an expired lease. What
    kept environments hold is neither kept nor dropped: nobody works on it.
    """
    kept = _adopt(supervisor, frozenset(active))
    keep = tuple(filter(None, (_kept_job(run, index) for run, index in kept)))
    stay = {kept.job.job_id for kept in keep} | {job.job_id for job in jobs_with_kept_units(active)}
    stay |= {job.job_id for job in jobs_of_kept_repeats(active)}
    return Adopted(keep=keep, drop=tuple(job.job_id for job in active if job.job_id not in stay))


@unit_of_work
def _adopt(supervisor: SupervisorSession, active: Set[Job]) -> list[tuple[RunAggregate, int]]:
    runs = _runs_of(_running().filter(agent_id=supervisor.agent_id))
    kept = []
    for run, index in _jobs_of_agent(runs, supervisor.agent_id):
        row = run.step(index)
        if Job(job_id=row.job_id, attempt=row.attempt) in active:
            run.change_step(
                index,
                incarnation=supervisor.incarnation,
                lease_expires_at=run.now + conf.lease(),
            )
            kept.append((run, index))
        elif row.unit_started_at is None:
            text = "the supervisor restarted before the container was created"
            run.apply(transitions.release(run.step_state(index), text))
        else:
            text = "the supervisor restarted and did not find the step"
            run.apply(transitions.expiry(run.step_state(index), text))
    _progress_and_save(runs.values())
    return kept


@unit_of_work
def expire_jobs_of(agent_id: str) -> None:
    """Expire the running jobs of a supervisor that was removed."""
    runs = _runs_of(_running().filter(agent_id=agent_id))
    for run, index in _jobs_of_agent(runs, agent_id):
        run.apply(transitions.expiry(run.step_state(index), f"{agent_id} was removed"))
    _progress_and_save(runs.values())


def expire_leases() -> int:
    """Expire leases that were not renewed within the grace after their end; return how many.

    A supervisor that no other can replace has longer, because it can continue what still runs.
    """
    now = clock.now()
    late = _running().filter(lease_expires_at__lt=now - conf.lease_grace())
    rows = list(late.values_list("pk", "agent_id", "backend_id", "lease_expires_at"))
    awaited = _find_irreplaceable({(agent_id, backend_id) for _, agent_id, backend_id, _ in rows})
    since = now - conf.lease_owner_patience()
    given_up = [
        pk for pk, *owner, end in rows if tuple(owner) not in awaited or (end and end < since)
    ]
    lost = _expire_leases(given_up, now - conf.lease_grace()) if given_up else 0
    metrics.count("partita.agent.leases_expired", lost)
    return lost


def _find_irreplaceable(owners: Iterable[tuple[str, str]]) -> set[tuple[str, str]]:
    """Return the (agent, backend) pairs that no other supervisor could replace now."""
    asked = set(owners)
    if not asked:
        return set()
    alone = {backend.backend_id for backend in backends() if backend.type not in _SHARED}
    online = [(agent.agent_id, agent.backends) for agent in online_agents()]
    return {
        (owner, backend)
        for owner, backend in asked
        if backend in alone and is_irreplaceable(owner, backend, online=online)
    }


@unit_of_work
def _expire_leases(steps: Sequence[UUID], cutoff: datetime) -> int:
    late = _running().filter(pk__in=steps, lease_expires_at__lt=cutoff)
    runs = _runs_of(late)
    expired = _running().filter(execution_id__in=list(runs))
    # a renewal is too late from here on: it needs a lease
    expired.filter(pk__in=steps, lease_expires_at__lt=cutoff).update(lease_expires_at=None)
    lost = list(expired.filter(lease_expires_at=None).values_list("execution_id", "index"))
    alive = {(agent.agent_id, agent.incarnation) for agent in online_agents()}
    for execution_pk, number in lost:
        _expire_lease(runs[execution_pk], number - 1, alive)
    release_bindings(runs.values())
    _progress_and_save(runs.values())
    return len(lost)


def _expire_lease(run: RunAggregate, index: int, alive: set[tuple[str, str]]) -> None:
    row = run.step(index)
    lives = (row.agent_id, row.incarnation) in alive
    if lives and row.unit_started_at is None and _is_never_renewed(row):
        # this very process is alive: the response to its claim was lost, or came too late
        text = f"{row.agent_id} did not start this attempt"
        run.apply(transitions.release(run.step_state(index), text))
    else:
        text = f"{row.agent_id} was lost: the lease was not renewed"
        run.apply(transitions.expiry(run.step_state(index), text))


def _is_never_renewed(row: Step) -> bool:
    """Return whether the supervisor never renewed the lease, as it does once it knows the claim."""
    if row.started_at is None or row.lease_expires_at is None:
        return False
    return row.lease_expires_at <= row.started_at + conf.lease()


def _progress_and_save(runs: Iterable[RunAggregate]) -> None:
    written = list(runs)
    for run in written:
        progress_run(run)
    save_runs(written)


def _running() -> QuerySet[Step, Step]:
    return Step.objects.filter(job_state=JobState.RUNNING.value)


def _steps_held_by(supervisor: SupervisorSession) -> QuerySet[Step, Step]:
    return _running().filter(
        agent_id=supervisor.agent_id,
        incarnation=supervisor.incarnation,
        lease_expires_at__isnull=False,
    )


def _runs_of(steps: QuerySet[Step, Step]) -> dict[UUID, RunAggregate]:
    indexes: dict[UUID, list[int]] = defaultdict(list)
    for execution_pk, number in steps.values_list("execution_id", "index"):
        indexes[execution_pk].append(number - 1)
    return load_runs(indexes, steps=indexes)


def _jobs_of_agent(runs: dict[UUID, RunAggregate], agent_id: str) -> list[tuple[RunAggregate, int]]:
    return [
        (run, index)
        for run in runs.values()
        for index in run.open_jobs()
        if run.step(index).agent_id == agent_id
    ]


def _lease_answer(step: Step | None, grace: timedelta) -> Lease | StaleAttempt:
    if step is None or step.lease_expires_at is None:
        return StaleAttempt()
    return Lease(
        status=step.job_state,
        cancel_reason=step.cancel_reason,
        lease_ms=int(conf.lease().total_seconds() * 1000),
        expires_at=step.lease_expires_at,
        lease_grace_s=grace.total_seconds(),
    )


def _store_usage(measurements: Iterable[tuple[Step, StepUsage]]) -> None:
    measured = []
    for step, usage in measurements:
        values = transitions.usage_values(usage, peak_before=step.memory_peak_bytes)
        for name, value in values.items():
            setattr(step, name, value)
        measured.append(step)
    if measured:
        Step.objects.bulk_update(measured, transitions.USAGE_COLUMNS)


def _store_probes(probes: Mapping[UUID, tuple[Step, ProbeProgress]]) -> None:
    """Store what the probes of services that are not ready answered, and wake their readers."""
    if not probes:
        return
    now = clock.now()
    for pk, (step, probe) in probes.items():
        deadline = now + timedelta(milliseconds=probe.time_left_ms)
        record: ProbeRecord = {
            "attempt": step.attempt,
            "answer": probe.answer[:PROBE_ANSWER_CHARACTERS].replace("\0", "\ufffd"),
            "tries": probe.tries,
            "deadline": clock.rfc3339(deadline),
        }
        not_ready = _running().filter(pk=pk, attempt=step.attempt, status=StepStatus.RUNNING.value)
        not_ready.update(probe=record)
    runs = {step.execution_id for step, _ in probes.values()}
    for run_id in Execution.objects.filter(pk__in=runs).values_list("run_id", flat=True):
        nudge(probes_nudge(run_id))


def _kept_job(run: RunAggregate, index: int) -> AdoptedJob | None:
    row = run.step(index)
    try:
        spec = step_spec(run, index)
    except SecretUnresolved as error:
        fail_for_secrets(run.execution.pk, error.detail)
        return None
    return AdoptedJob(
        job=Job(job_id=row.job_id, attempt=row.attempt),
        next_seq=row.next_seq,
        position=row.position,
        spec=spec,
    )
