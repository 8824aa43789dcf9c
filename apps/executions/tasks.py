"""Celery tasks. The sweep does the work of lost messages."""

from __future__ import annotations

from celery import shared_task

from apps.executions.api import dispatch, sweep


@shared_task(name="executions.dispatch", acks_late=True)
def dispatch_executions() -> None:
    dispatch()


@shared_task(name="executions.sweep")
def sweep_executions() -> None:
    sweep()
