"""Celery messages, sent by a thread of its own because a broker may refuse them or hang."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from apps.operations.api import celery_application
from kernel.background import report_error
from kernel.background_writer import BackgroundWriter, QueueLimits

log = logging.getLogger("partita.executions")
_WAITING_AT_MOST: Final = 1_000


@dataclass(frozen=True, slots=True)
class _Message:
    task: str
    arguments: tuple[str, ...]
    expires_s: float | None


def _send(batch: Sequence[_Message]) -> None:
    for message in batch:
        try:
            celery_application().send_task(
                message.task,
                args=message.arguments,
                expires=message.expires_s,
                ignore_result=True,
                retry=False,
            )
        except Exception as error:  # noqa: BLE001 - the edge to whatever broker is configured
            report_error(optional=True)
            log.warning(
                "the broker is unavailable (%s); %s is left to the sweep", error, message.task
            )


# The sweep does the work of lost messages, and of those that a full queue drops.
_writer: Final = BackgroundWriter("enqueue", _send, QueueLimits(items=_WAITING_AT_MOST))


def enqueue(task: str, *arguments: str, expires_s: float | None = None) -> None:
    """Send a Celery task by name, to be ignored after `expires_s`; never block, never raise."""
    if not _writer.put(_Message(task, arguments, expires_s)):
        log.warning("the broker does not accept messages; %s is left to the sweep", task)
