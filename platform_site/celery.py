"""The Celery application: `celery -A platform_site worker`."""

from __future__ import annotations

import os
import sys
from typing import Any

from celery import Celery
from celery.signals import worker_process_init, worker_process_shutdown
from django.apps import apps
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from kombu.transport import TRANSPORT_ALIASES

from apps.observability.api import start_telemetry, stop_telemetry
from kernel.commands import ExitCode


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


def _refuse_wrong_settings() -> None:
    """A worker that cannot start says why in a sentence and exits with 78, as the commands do."""
    try:
        hasattr(settings, "SECRET_KEY")  # any question reads them all
    except ImproperlyConfigured as error:
        sys.stderr.write(f"error: {error}\n")
        sys.exit(ExitCode.CONFIGURATION)


if "worker" in sys.argv:
    _refuse_wrong_settings()

# a path: processes without Redis do not import its client
TRANSPORT_ALIASES["redis"] = TRANSPORT_ALIASES["rediss"] = "platform_site.redis_transport:Transport"
app = Celery("partita")
app.config_from_object("django.conf:settings", namespace="CELERY")


def _apps_with_tasks() -> list[str]:
    """Return the apps whose tasks are loaded: within `up`, none of the sync stack ever comes.

    A process of workers loads all of them: those of the queue `sync` take their broker from the
    bundle.
    """
    names = [each.name for each in apps.get_app_configs()]
    if "worker" in sys.argv or not app.conf.broker_url.startswith("memory:"):
        return names
    return [name for name in names if not name.startswith("sync_stack.")]


app.autodiscover_tasks(_apps_with_tasks)


@worker_process_init.connect
def _start_telemetry(**_facts: Any) -> None:
    """In the process that runs tasks, after its fork: exporters have threads."""
    if apps.is_installed("apps.operations"):
        start_telemetry()


@worker_process_shutdown.connect
def _stop_telemetry(**_facts: Any) -> None:
    if apps.is_installed("apps.operations"):
        stop_telemetry()
