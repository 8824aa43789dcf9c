"""Celery tasks of the dispatchers: calls that no request may wait for."""

from __future__ import annotations

from celery import shared_task

from apps.workers.services.calling_off import call_off


@shared_task(name="workers.call_off", acks_late=False)
def call_off_jobs(run_id: str) -> None:
    call_off(run_id)
