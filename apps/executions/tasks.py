"""Celery tasks. The sweep does the work of lost messages."""

from __future__ import annotations

from uuid import UUID

from celery import shared_task

from apps.executions.services.admission import dispatch
from apps.executions.services.mock_nodes import check_mocks
from apps.executions.services.sweep import sweep


@shared_task(name="executions.dispatch", acks_late=True)
def dispatch_executions() -> None:
    dispatch()


@shared_task(name="executions.sweep")
def sweep_executions() -> None:
    sweep()


@shared_task(name="executions.check_mocks", acks_late=True)
def check_mocks_of_run(execution_pk: str) -> None:
    check_mocks(UUID(execution_pk))
