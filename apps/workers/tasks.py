"""Celery tasks of the dispatchers: calls that no request may wait for."""

from __future__ import annotations

from celery import shared_task

from apps.workers.services.stop_requests import send_stop_requests


@shared_task(name="workers.call_off", acks_late=False)
def call_off_jobs(run_id: str) -> None:
    send_stop_requests(run_id)
