"""The Celery application: `celery -A platform_site worker`."""

from __future__ import annotations

import os
from typing import Any

from celery import Celery
from celery.signals import worker_process_init, worker_process_shutdown

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "platform_site.settings.production")  # noqa: TID251

app = Celery("partita")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()


@worker_process_init.connect
def _start_telemetry(**_facts: Any) -> None:
    """In the process that runs tasks, after its fork: exporters have threads."""
    from apps.system.api import start_telemetry  # the apps are ready only now

    start_telemetry()


@worker_process_shutdown.connect
def _stop_telemetry(**_facts: Any) -> None:
    from apps.system.api import stop_telemetry

    stop_telemetry()
