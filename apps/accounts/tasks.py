"""Celery tasks."""

from __future__ import annotations

from uuid import UUID

from celery import shared_task

from apps.accounts.services.password_reset import MAIL_TASK, mail_reset_link
from apps.operations.api import MailUnavailable


@shared_task(
    name=MAIL_TASK,
    acks_late=True,
    autoretry_for=(MailUnavailable,),
    retry_backoff=5,
    max_retries=5,
)
def mail_link(user_id: str) -> None:
    mail_reset_link(UUID(user_id))
