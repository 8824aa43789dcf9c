"""Publish task ids: to a broker, or to threads of this process. A message is only a hint."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Final
from urllib.parse import quote

from amqp.exceptions import ChannelError
from django.db import Error as StoreError
from django.db import close_old_connections
from kombu.exceptions import KombuError

from kernel import clock
from kernel.background import BackgroundThread, PeriodicThread, one_cycle, report_error
from sync_stack.core.bundle.model import Bundle
from sync_stack.orchestrator import conf
from sync_stack.orchestrator.selectors import tasks
from sync_stack.orchestrator.services import task_transitions
from sync_stack.orchestrator.services.execution.attempt import Resolve
from sync_stack.sinks.redis import RedisOptions

log: Final = logging.getLogger(__name__)
TASK: Final = "sync.execute"
QUEUE: Final = "sync"
_MOST_WAITING: Final = 100_000
_POLL_S: Final = 1.0
_PROBE_S: Final = 5.0
_AGAIN_S: Final = 1.0  # between two calls to a broker that is away
_NOT_FOUND: Final = "404"


def broker_url(bundle: Bundle, resolve: Resolve) -> str:
    """Return CELERY_BROKER_URL, else the bundle's Redis; empty: this process runs tasks itself."""
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
    """Configure a Celery application for this broker."""
    celery.update(broker_url=url)
    if url.startswith("redis"):
        celery.update(broker_transport_options=conf.broker_options())


class BrokerAway(Exception):
    """The broker refuses or does not answer; the message names the kind of failure."""


class Publisher:
    """Pass task ids to `send` from a thread of its own, so that a slow broker delays no caller.

    Ids that the broker does not accept wait, each once and in order, until it answers again. With
    `probe` the broker is called when nothing was sent for 5 s; `failing` is the result of the last
    call. `send` and `probe` raise BrokerAway.
    """

    def __init__(
        self, send: Callable[[str], None], probe: Callable[[], object] | None = None
    ) -> None:
        self._send = send
        self._probe = probe
        self._waiting: dict[str, None] = {}
        self._changed = threading.Condition()
        self._ended = threading.Event()
        self._thread = BackgroundThread(
            "publisher", self._run, ended=self._ended, after_failure=close_old_connections
        )
        self.failing = False

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End the thread after its current call; the sweep finds what still waits."""
        self._ended.set()
        with self._changed:
            self._changed.notify()

    def __call__(self, task_ids: Sequence[str]) -> None:
        """Queue ids without blocking or raising; the wake sweep finds those that do not fit."""
        with self._changed:
            for task_id in task_ids:
                if len(self._waiting) >= _MOST_WAITING:
                    return
                self._waiting[task_id] = None
            self._changed.notify()

    def _run(self) -> None:
        while not self._ended.is_set():
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._ended.is_set(), _PROBE_S)
                oldest = next(iter(self._waiting), None)
            with one_cycle():
                is_sent = self.turn(oldest)
            if not is_sent:
                self._ended.wait(_AGAIN_S)

    def turn(self, task_id: str | None) -> bool:
        """Send an id, or without one probe the broker; return False if it is away."""
        try:
            if task_id is not None:
                self._publish(task_id)
            elif self._probe is not None and not self._ended.is_set():
                self._probe()
        except BrokerAway as error:
            self._note(away=error)
            report_error(optional=True)
            return False
        self._note(away=None)
        return True

    @property
    def waiting(self) -> tuple[str, ...]:
        """Return the ids that are not sent yet, oldest first."""
        with self._changed:
            return tuple(self._waiting)

    def _publish(self, task_id: str) -> None:
        close_old_connections()
        self._send(task_id)
        with self._changed:
            self._waiting.pop(task_id, None)
        try:
            task_transitions.mark_published([task_id], clock.now())
        except StoreError as error:
            log.warning("task %s was not marked as published: %s", task_id, type(error).__name__)
            report_error()

    def _note(self, *, away: BrokerAway | None) -> None:
        """Log the first call that fails and the first that passes again."""
        if away is not None and not self.failing:
            log.warning("the broker does not take tasks: %s", away, extra={"event": "broker_away"})
        elif self.failing and away is None:
            log.info("the broker takes tasks again", extra={"event": "broker_back"})
        self.failing = away is not None


@contextmanager
def _calling() -> Iterator[None]:
    """Raise BrokerAway for the errors of kombu if a broker refuses or does not answer."""
    try:
        yield
    except _errors() as error:
        raise BrokerAway(type(error.__cause__ or error).__name__) from error


def _errors() -> tuple[type[BaseException], ...]:
    """Return kombu's own errors and those of the broker's client, not all of which it wraps."""
    connection = conf.celery_application().connection_for_write()
    return (KombuError, OSError, *connection.connection_errors, *connection.channel_errors)


def send_to_broker(task_id: str) -> None:
    """Send the message of a task. Raises BrokerAway."""
    with _calling():
        conf.celery_application().send_task(
            TASK, args=[task_id], queue=QUEUE, retry=False, ignore_result=True
        )


def count_queued_messages() -> int:
    """Return the messages that no worker has taken, 0 without a queue. Raises BrokerAway."""
    with _calling(), conf.celery_application().connection_for_read() as connection:
        channel: Any = connection.default_channel
        try:
            return int(channel.queue_declare(queue=QUEUE, passive=True).message_count)
        except ChannelError as error:
            if str(error.reply_code) != _NOT_FOUND:  # kombu's virtual transports give a text
                raise
            return 0


class LocalWorkers:
    """Run tasks on threads of this process: those passed to `__call__`, and a poll each second."""

    def __init__(self, run_task: Callable[[str], Any], threads: int) -> None:
        self._run_task = run_task
        self._waiting: queue.Queue[str] = queue.Queue()
        self._under_way: set[str] = set()
        self._changing = threading.Lock()
        self._end = threading.Event()
        watched = partial(BackgroundThread, ended=self._end, after_failure=close_old_connections)
        self._threads = [
            watched("worker", self._run, title=f"worker-{number}") for number in range(threads)
        ]
        self._threads.append(
            PeriodicThread(
                "worker-poll",
                self._poll,
                lambda: self._end.wait(_POLL_S),
                ended=self._end,
                after_failure=close_old_connections,
            )
        )

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
            with one_cycle():
                self._run_one(name)

    def _run_one(self, name: str) -> None:
        try:
            self._run_task(name)
        except StoreError as error:
            log.warning("task %s: the store failed: %s", name, type(error).__name__)
            report_error()

    def _poll(self) -> None:
        close_old_connections()
        now = clock.now()
        try:
            self(tasks.to_publish(now, fresh=now, again=now, limit=100))
        except StoreError as error:
            log.warning("waiting tasks were not read: %s", type(error).__name__)
            report_error()
