"""Celery tasks. What is due is found in the store."""

from __future__ import annotations

from celery import shared_task

from apps.oci.services.sync import sync_due


@shared_task(name="oci.sync_due", acks_late=False)
def sync_due_registries() -> None:
    sync_due()
