"""Celery workers of the queue `sync`: run the task of an id."""

from __future__ import annotations

import multiprocessing
import threading
from functools import lru_cache
from typing import Any, Final

from celery import shared_task
from celery.signals import (
    celeryd_init,
    worker_process_init,
    worker_process_shutdown,
    worker_shutting_down,
)
from django.apps import apps

from kernel import background
from sync_stack.configuration.startup import StartRefused, refusing
from sync_stack.configuration.telemetry import ProcessTelemetry, start_telemetry
from sync_stack.orchestrator.server.broker import (
    QUEUE,
    TASK,
    Publisher,
    broker_url,
    send_to_broker,
    use_broker,
)
from sync_stack.orchestrator.server.ports import collect_garbage_rarely, open_bundle, ports_of
from sync_stack.orchestrator.services import counters
from sync_stack.orchestrator.services.execution.attempt import Ports
from sync_stack.orchestrator.services.execution.task_runner import run_task

_FINISH_S: Final = 20.0
_telemetry: Final[list[ProcessTelemetry]] = []  # at most one
_dropped: Final[dict[str, int]] = {}  # lines by reason, not counted yet
_dropping: Final = threading.Lock()
_failures: Final[dict[str, int]] = {}  # of background loops, as counted so far
_stopping: Final = multiprocessing.Event()  # made before the fork: all children see it


@shared_task(name=TASK, ignore_result=True, acks_late=True)
def execute_task(task_id: str) -> None:
    run_task(task_id, _ports(), stopping=_stopping)
    _count_dropped()
    _count_failures()


@lru_cache(maxsize=1)
def _ports() -> Ports:
    """Open the ports after the fork, in the process that runs tasks, and watch the bundle."""
    collect_garbage_rarely()
    configuration = open_bundle()
    configuration.file.watch()
    publisher = Publisher(send_to_broker)
    publisher.start()
    return ports_of(configuration, publisher)


@celeryd_init.connect
def _use_broker(conf: Any = None, options: Any = None, **_facts: Any) -> None:
    """Take the broker from the bundle, unless the environment names one."""
    queues = (options or {}).get("queues") or ()
    if QUEUE not in (queues.split(",") if isinstance(queues, str) else queues):
        return
    with refusing():
        configuration = open_bundle()
        url = broker_url(configuration.bundle, configuration.secrets.resolve)
        configuration.close()
        if not url:
            raise StartRefused(["no broker: set task_broker_datasource or CELERY_BROKER_URL"])
    use_broker(conf, url)


@worker_process_init.connect
def _observe(**_facts: Any) -> None:
    """Start telemetry after the fork, because exporters have threads."""
    if _is_of_sync():
        with refusing():
            _telemetry.append(start_telemetry("worker", dropped=_drop))


@worker_process_shutdown.connect
def _stop_telemetry(**_facts: Any) -> None:
    while _telemetry:
        _telemetry.pop().stop()


def _is_of_sync() -> bool:
    """Return whether this is a worker of the sync; the control plane's have their own telemetry."""
    return not apps.is_installed("apps.operations")


def _count_dropped() -> None:
    """Count dropped log lines in the store: a worker serves no /metrics."""
    with _dropping:
        lost = dict(_dropped)
        _dropped.clear()
    for reason, lines in lost.items():
        counters.add("orch_worker_log_lines_dropped_total", float(lines), reason=reason)


def _count_failures() -> None:
    """Count the failures of background loops since the last task."""
    for loop, total in background.failures().items():
        new, _failures[loop] = total - _failures.get(loop, 0), total
        if new:
            counters.add("orch_worker_background_failures_total", float(new), loop=loop)


def _drop(reason: str, lines: int) -> None:
    with _dropping:
        _dropped[reason] = _dropped.get(reason, 0) + lines


@worker_shutting_down.connect
def _stop(**_facts: Any) -> None:
    """End attempts that still run after 20 s; the claims are released."""
    timer = threading.Timer(_FINISH_S, _stopping.set)
    timer.daemon = True
    timer.start()
