"""What Celery workers of the queue `sync` do: execute the task of an id."""

from __future__ import annotations

import multiprocessing
import threading
from functools import lru_cache
from typing import Any, Final

from celery import shared_task
from celery.signals import celeryd_init, worker_shutting_down

from sync_stack.configuration.startup import StartRefused, refusing
from sync_stack.orchestrator.execution.attempt import Ports
from sync_stack.orchestrator.execution.running import execute
from sync_stack.orchestrator.serving.broker import (
    QUEUE,
    TASK,
    Publisher,
    broker_url,
    send_to_broker,
    use_broker,
)
from sync_stack.orchestrator.serving.ports import open_bundle, ports_of

_FINISH_S: Final = 20.0
_stopping: Final = multiprocessing.Event()  # made before the fork: all children see it


@shared_task(name=TASK, ignore_result=True, acks_late=True)
def execute_task(task_id: str) -> None:
    execute(task_id, _ports(), stopping=_stopping)


@lru_cache(maxsize=1)
def _ports() -> Ports:
    """Of the process that runs tasks, after its fork; the bundle is watched from then on."""
    configuration = open_bundle()
    configuration.file.watch()
    publisher = Publisher(send_to_broker)
    publisher.start()
    return ports_of(configuration, publisher)


@celeryd_init.connect
def _use_broker(conf: Any = None, options: Any = None, **_facts: Any) -> None:
    """A worker of the sync takes its broker from the bundle, unless the environment names one."""
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


@worker_shutting_down.connect
def _stop(**_facts: Any) -> None:
    """No new claims from now on; what has not ended in 20 s is given back."""
    timer = threading.Timer(_FINISH_S, _stopping.set)
    timer.daemon = True
    timer.start()
