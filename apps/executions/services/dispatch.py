"""Admission: queued runs boot while capacity is free, round-robin over workspaces."""

from __future__ import annotations

from typing import Final
from uuid import UUID

from django.db.models import F

from apps.executions import conf
from apps.executions.domain.states import FINAL_EXECUTION, ExecutionStatus, RunReason
from apps.executions.models import Execution, WorkLease
from apps.executions.selectors.runs import admission_queue
from apps.executions.selectors.snapshots import run_definition
from apps.executions.services.run_aggregate import load_runs, save_runs
from apps.executions.services.run_progression import boot, fail_run
from apps.executions.services.secrets import SecretUnresolved, resolve_secrets
from apps.platform_settings.api import backends
from apps.streams.api import unit_of_work
from kernel import clock

Problem = tuple[RunReason, str]
_ADMISSION: Final = "admission"
_ACTIVE: Final = [
    str(status)
    for status in ExecutionStatus
    if status not in FINAL_EXECUTION and status is not ExecutionStatus.QUEUED
]


def dispatch() -> int:
    """Admit queued runs while there is capacity; return how many booted or failed.

    A run fails instead if its secrets do not resolve or its backend is gone
    (reference: control-plane 11.3).
    """
    waiting = _admissible()
    if not waiting:
        return 0
    # secrets are read before the transaction: a provider may take seconds
    problems = {pk: _problem(pk) for pk in waiting}
    return _admit(problems)


def ensure_lease_row(name: str) -> None:
    """Create the row of a work lease unless it exists."""
    if not WorkLease.objects.filter(name=name).exists():
        _create_lease_row(name)


@unit_of_work
def _create_lease_row(name: str) -> None:
    WorkLease.objects.get_or_create(name=name, defaults={"expires_at": clock.now()})


def _admissible() -> list[UUID]:
    """Return the next runs in the queue, as many as there is capacity for."""
    queue = list(admission_queue().values())
    if not queue:
        return []
    capacity = conf.max_active() - Execution.objects.filter(status__in=_ACTIVE).count()
    return queue[: max(0, capacity)]


@unit_of_work
def _admit(problems: dict[UUID, Problem | None]) -> int:
    ensure_lease_row(_ADMISSION)
    # one admission at a time: two would both use the last free capacity
    WorkLease.objects.filter(name=_ADMISSION).update(version=F("version") + 1)
    checked = [pk for pk in _admissible() if pk in problems]
    runs = load_runs(checked)
    queued = ExecutionStatus.QUEUED
    admitted = [
        run
        for run in filter(None, map(runs.get, checked))
        if run.execution.status == queued and not run.execution.verdict
    ]
    for run in admitted:
        if problem := problems[run.execution.pk]:
            fail_run(run, *problem)
        else:
            boot(run)
    save_runs(admitted)
    return len(admitted)


def _problem(execution_pk: UUID) -> Problem | None:
    execution = Execution.objects.filter(pk=execution_pk).first()
    if execution is None:
        return None
    if all(backend.backend_id != execution.backend_id for backend in backends()):
        return (
            RunReason.BACKEND_UNAVAILABLE,
            f"backend {execution.backend_id!r} is gone or disabled since the launch",
        )
    try:
        resolve_secrets(run_definition(execution.snapshot_id).profile["secretRefs"])
    except SecretUnresolved as error:
        return RunReason.SECRET_UNRESOLVED, error.detail
    return None
