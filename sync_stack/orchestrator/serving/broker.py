"""Telling workers of tasks: by a broker, or to threads of this process. Only ever a hint."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Sequence
from typing import Any, Final
from urllib.parse import quote

from celery import current_app
from django.db import Error as StoreError
from django.db import close_old_connections
from kombu.exceptions import OperationalError

from kernel import clock
from sync_stack.core.bundle.model import Bundle, RedisOptions
from sync_stack.orchestrator import conf
from sync_stack.orchestrator.execution.attempt import Resolve
from sync_stack.orchestrator.rows import tasks

log: Final = logging.getLogger(__name__)
TASK: Final = "sync.execute"
QUEUE: Final = "sync"
_MOST_WAITING: Final = 100_000
_POLL_S: Final = 1.0


def broker_url(bundle: Bundle, resolve: Resolve) -> str:
    """CELERY_BROKER_URL, else the bundle's redis; empty: this process executes by itself."""
    if url := conf.broker_url():
        return url
    if not bundle.task_broker_datasource:
        return ""
    options = bundle.datasource(bundle.task_broker_datasource).options
    if not isinstance(options, RedisOptions):
        return ""
    password = quote(resolve(options.password, None), safe="") if options.password else ""
    user = quote(resolve(options.username, None), safe="") if options.username else ""
    login = f"{user}:{password}@" if password else ""
    scheme = "rediss" if options.enable_tls else "redis"
    return f"{scheme}://{login}{options.hosts[0]}/{options.db}"


def use_broker(celery: Any, url: str) -> None:
    """Settings of a Celery application that was configured without this broker."""
    celery.update(broker_url=url)
    if url.startswith("redis"):
        celery.update(broker_transport_options=conf.broker_options())


class Publisher:
    """Hands task ids to `send` from a thread of its own, so that a slow broker delays nobody."""

    def __init__(self, send: Callable[[str], None]) -> None:
        self._send = send
        self._waiting: queue.Queue[str] = queue.Queue(_MOST_WAITING)
        self._thread = threading.Thread(target=self._run, name="publisher", daemon=True)
        self.failing = False

    def start(self) -> None:
        self._thread.start()

    def __call__(self, task_ids: Sequence[str]) -> None:
        """Never blocks, never raises: the wake sweep finds what is lost here."""
        for task_id in task_ids:
            try:
                self._waiting.put_nowait(task_id)
            except queue.Full:
                return

    def _run(self) -> None:
        while True:
            self._publish(self._waiting.get())

    def _publish(self, task_id: str) -> None:
        close_old_connections()
        try:
            self._send(task_id)
            tasks.mark_published([task_id], clock.now())
        except (OperationalError, OSError) as error:
            if not self.failing:
                log.warning("the broker does not take tasks: %s", type(error).__name__)
            self.failing = True
        except StoreError as error:
            log.warning("task %s is not marked as published: %s", task_id, type(error).__name__)
        else:
            self.failing = False


def send_to_broker(task_id: str) -> None:
    current_app.send_task(TASK, args=[task_id], queue=QUEUE, retry=False, ignore_result=True)


def queued_in_broker() -> int:
    """Messages that no worker has taken; 0 when the broker does not say."""
    connection = current_app.connection_for_read()
    try:
        with connection:
            channel: Any = connection.default_channel
            return int(channel.queue_declare(queue=QUEUE, passive=True).message_count)
    except (*connection.connection_errors, *connection.channel_errors):
        return 0


class LocalWorkers:
    """Executes tasks on threads of this process: woken by `__call__`, and looks every second."""

    def __init__(self, execute: Callable[[str], Any], threads: int) -> None:
        self._execute = execute
        self._waiting: queue.Queue[str] = queue.Queue()
        self._under_way: set[str] = set()
        self._changing = threading.Lock()
        self._end = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, name=f"worker-{number}", daemon=True)
            for number in range(threads)
        ]
        self._threads.append(threading.Thread(target=self._poll, name="worker-poll", daemon=True))

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self, timeout_s: float) -> None:
        self._end.set()
        for thread in self._threads:
            thread.join(timeout_s)

    def __call__(self, task_ids: Sequence[str]) -> None:
        with self._changing:
            fresh = [name for name in task_ids if name not in self._under_way]
            self._under_way.update(fresh)
        for name in fresh:
            self._waiting.put(name)

    def _run(self) -> None:
        while not self._end.is_set():
            try:
                name = self._waiting.get(timeout=_POLL_S)
            except queue.Empty:
                continue
            close_old_connections()
            with self._changing:
                self._under_way.discard(name)
            try:
                self._execute(name)
            except StoreError as error:
                log.warning("task %s: the store failed: %s", name, type(error).__name__)

    def _poll(self) -> None:
        while not self._end.wait(_POLL_S):
            close_old_connections()
            now = clock.now()
            try:
                self(tasks.to_publish(now, fresh=now, again=now, limit=100))
            except StoreError as error:
                log.warning("no look at waiting tasks: %s", type(error).__name__)
