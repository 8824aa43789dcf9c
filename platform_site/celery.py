"""The Celery application: `celery -A platform_site worker`."""

from __future__ import annotations

import os
import sys
from typing import Any

from celery import Celery
from celery.signals import worker_process_init, worker_process_shutdown


def _settings_module(arguments: list[str]) -> str:
    """A worker of the queue `sync` alone is a process of the sync stack."""
    queues = [
        value or following
        for word, following in zip(arguments, [*arguments[1:], ""], strict=True)
        for name, _, value in [word.partition("=")]
        if name in ("-Q", "--queues")
    ]
    alone = queues == ["sync"] or "-Qsync" in arguments
    return "platform_site.settings.sync" if alone else "platform_site.settings.production"


os.environ.setdefault("DJANGO_SETTINGS_MODULE", _settings_module(sys.argv))  # noqa: TID251

app = Celery("partita")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()


@worker_process_init.connect
def _start_telemetry(**_facts: Any) -> None:
    """In the process that runs tasks, after its fork: exporters have threads."""
    if _has_control_plane():
        from apps.system.api import start_telemetry  # the apps are ready only now

        start_telemetry()


@worker_process_shutdown.connect
def _stop_telemetry(**_facts: Any) -> None:
    if _has_control_plane():
        from apps.system.api import stop_telemetry

        stop_telemetry()


def _has_control_plane() -> bool:
    from django.apps import apps

    return apps.is_installed("apps.system")
