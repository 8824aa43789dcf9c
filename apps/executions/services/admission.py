"""Admission: queued runs boot while there are places, by the shares of their workspaces.

(reference: control-plane 14.4)
"""

from __future__ import annotations

from typing import Final
from uuid import UUID

from django.db.models import F

from apps.executions.domain.fair_share import Occupant, add_given
from apps.executions.domain.place_queue import Waiter
from apps.executions.domain.states import ExecutionStatus, RunReason
from apps.executions.models import Execution, FairQueue, WorkLease
from apps.executions.selectors.definitions import run_definition
from apps.executions.selectors.run_queue import RUNS, QueueOfRuns, read_run_queue
from apps.executions.services.run_aggregate import RunAggregate, load_runs, save_runs
from apps.executions.services.run_progression import boot, cancel_run, fail_run
from apps.executions.services.secrets import SecretUnresolved, resolve_secrets
from apps.executions.services.work_leases import ensure_lease_row
from apps.platform_settings.api import backends
from apps.streams.api import unit_of_work

Problem = tuple[RunReason, str]
_EARLIER_LOCK: Final = "admission"  # what control planes before decision 0057 lock
_ROUNDS: Final = 3  # of one dispatch: a run that was accepted meanwhile is not left to the sweep


def dispatch() -> int:
    """Admit queued runs while there are places; return how many booted or failed.

    A run fails instead if its secrets do not resolve or its backend is gone
    (reference: control-plane 11.3).
    """
    admitted = 0
    if not Execution.objects.filter(status=ExecutionStatus.QUEUED.value, deleted_at=None).exists():
        return admitted
    ensure_fair_queue(RUNS)
    ensure_lease_row(_EARLIER_LOCK)
    for _ in range(_ROUNDS):
        queue = read_run_queue()
        next_ones = [UUID(each.key) for each in queue.place_queue().take_all()]
        if not next_ones and not queue.superseded:
            break
        # secrets are read before the transaction: a provider may take seconds
        count, is_final = _admit({pk: _problem(pk) for pk in next_ones})
        admitted += count
        if is_final:
            break
    return admitted


def ensure_fair_queue(name: str) -> None:
    """Create the row of a queue unless it exists."""
    if not FairQueue.objects.filter(name=name).exists():
        _create_fair_queue(name)


@unit_of_work
def _create_fair_queue(name: str) -> None:
    FairQueue.objects.get_or_create(name=name)


@unit_of_work
def _admit(problems: dict[UUID, Problem | None]) -> tuple[int, bool]:
    """Admit those of `problems` that have a place now; return how many, and whether that is all.

    It is not if runs came meanwhile, or if places are free again that were just given.
    """
    # one admission at a time: two would both give the last place
    WorkLease.objects.filter(name=_EARLIER_LOCK).update(version=F("version") + 1)
    FairQueue.objects.filter(name=RUNS).update(version=F("version") + 1)
    queue = read_run_queue()
    places, chosen = queue.place_queue(), list[Waiter]()
    is_final = not queue.superseded and not any(problems.values())
    while (candidate := places.next_candidate()) is not None:
        if UUID(candidate.key) not in problems:
            places.drop(candidate)
            is_final = False
            continue
        places.take(candidate)
        chosen.append(candidate)
    runs = load_runs(UUID(key) for key in (*queue.superseded, *(each.key for each in chosen)))
    for key, newer in queue.superseded.items():
        if (run := runs.get(UUID(key))) is not None and _is_open(run):
            supersede(run, newer)
    for each in chosen:
        if (run := runs.get(UUID(each.key))) is not None and _is_waiting(run):
            _begin(run, problems[run.execution.pk])
    _keep_accounts(queue, [each for each in chosen if UUID(each.key) in runs])
    save_runs(runs.values())
    return len(chosen), is_final


def _is_waiting(run: RunAggregate) -> bool:
    return run.execution.status == ExecutionStatus.QUEUED and not run.execution.verdict


def _is_open(run: RunAggregate) -> bool:
    return _is_waiting(run) or run.is_planning


def _begin(run: RunAggregate, problem: Problem | None) -> None:
    if problem:
        fail_run(run, *problem)
    else:
        boot(run)


def supersede(run: RunAggregate, newer: str) -> None:
    """Cancel a run because the run `newer` of its concurrency group takes its place."""
    group = run.execution.concurrency_group
    cancel_run(run, f"superseded by {newer} of the concurrency group {group}", by="")


def _keep_accounts(queue: QueueOfRuns, given: list[Waiter]) -> None:
    now = queue.now.timestamp()
    places = [Occupant(each.key, each.workspace, each.backend, now) for each in given]
    accounts = add_given(queue.accounts, places)
    stored = {scope: account.as_json() for scope, account in accounts.items()}
    FairQueue.objects.filter(name=RUNS).update(accounts=stored)


def _problem(execution_pk: UUID) -> Problem | None:
    execution = Execution.objects.filter(pk=execution_pk).first()
    if execution is None:
        return None
    if all(backend.backend_id != execution.backend_id for backend in backends()):
        return (
            RunReason.BACKEND_UNAVAILABLE,
            f"backend {execution.backend_id!r} was removed or disabled after the launch",
        )
    try:
        resolve_secrets(run_definition(execution.snapshot_id).all_secret_refs())
    except SecretUnresolved as error:
        return RunReason.SECRET_UNRESOLVED, error.detail
    return None
