"""Copies of task records outside the API: `task_backend_datasource`.

Copies are written in the background: no task waits for them or fails with them.

(reference: sync-stack 1.4)
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Final, Protocol

from django.db import Error as StoreError
from django.db import close_old_connections, connection

from kernel import clock
from kernel.background import report_error
from kernel.background_writer import BackgroundWriter, QueueLimits
from sync_stack.configuration.secrets import SecretError
from sync_stack.core.bundle.datasources import Datasource
from sync_stack.core.bundle.model import Bundle
from sync_stack.core.sink import SinkError
from sync_stack.orchestrator.selectors import tasks
from sync_stack.orchestrator.server.documents import task_document
from sync_stack.sinks.limits import Timeouts
from sync_stack.sinks.mongo import MongoOptions
from sync_stack.sinks.mongo import client as mongo_client
from sync_stack.sinks.open_sinks import Resolve
from sync_stack.sinks.redis import RedisOptions
from sync_stack.sinks.redis import client as redis_client

log: Final = logging.getLogger(__name__)
KEPT: Final = timedelta(hours=24)
COLLECTION: Final = "partita_tasks"
_MOST_WAITING: Final = 10_000
_ROUNDS: Final = 5
Publish = Callable[[Sequence[str]], None]


class CopyBackend(Protocol):
    def put(self, document: Mapping[str, Any]) -> None:
        """Raises SinkError."""


class RedisBackend:
    """Keep a key `partita:task:<id>` for each task, for 24 hours."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def put(self, document: Mapping[str, Any]) -> None:
        text = json.dumps(document, separators=(",", ":"), ensure_ascii=False)
        with redis_client.translate_errors():
            self._client.set(f"partita:task:{document['task_id']}", text, ex=KEPT)


class MongoBackend:
    """Keep a document for each task; the server deletes it 24 hours after its last change."""

    def __init__(self, collection: Any) -> None:
        self._collection = collection
        with mongo_client.translate_errors():
            collection.create_index("copied_at", expireAfterSeconds=int(KEPT.total_seconds()))

    def put(self, document: Mapping[str, Any]) -> None:
        named = {"_id": document["task_id"], "copied_at": clock.now(), **document}
        with mongo_client.translate_errors():
            self._collection.replace_one({"_id": named["_id"]}, named, upsert=True)


def open_backend(datasource: Datasource, resolve: Resolve) -> CopyBackend:
    """Open the backend of a datasource. Raises SinkError, SecretError."""
    options, timeouts = datasource.options, Timeouts.of(datasource)
    if isinstance(options, RedisOptions):
        return RedisBackend(redis_client.connect(options, timeouts, resolve))
    if isinstance(options, MongoOptions):
        client = mongo_client.connect(options, timeouts, resolve)
        return MongoBackend(mongo_client.collection(client, options, COLLECTION))
    raise SinkError("destination_invalid", f"{datasource.name} cannot store copies of tasks")


class TaskCopies:
    """Write copies on a thread that starts with the first one.

    A new datasource in the bundle is used from the next copy on.
    """

    def __init__(self, bundle: Callable[[], Bundle], resolve: Resolve) -> None:
        self._bundle = bundle
        self._resolve = resolve
        self._open: tuple[Datasource, CopyBackend] | None = None
        self._failing = False
        self._writer = BackgroundWriter(
            "task-copies",
            self._write,
            QueueLimits(items=_MOST_WAITING),
            after_failure=close_old_connections,
        )

    def __call__(self, task_ids: Sequence[str]) -> None:
        """Queue tasks to copy without blocking or raising; beyond 10,000 they are dropped."""
        if self._bundle().task_backend_datasource:
            for task_id in task_ids:
                self._writer.put(task_id)

    def beside(self, publish: Publish) -> Publish:
        """Return a function that publishes task ids and copies the tasks."""

        def both(task_ids: Sequence[str]) -> None:
            publish(task_ids)
            self(task_ids)

        return both

    def _write(self, batch: Sequence[str]) -> None:
        close_old_connections()
        try:
            for task_id in batch:
                self._copy(task_id)
        except (SinkError, SecretError, StoreError) as error:
            if not self._failing:
                log.warning("tasks cannot be copied: %s", error)
            self._failing = True
            report_error(optional=True)
        else:
            self._failing = False
        if self._writer.is_empty():
            connection.close()

    def _copy(self, task_id: str) -> None:
        """Copy a task until it no longer changes, whoever else copies it as well."""
        known = -1
        for _ in range(_ROUNDS):
            task = tasks.get(task_id)
            if task is None or task.version == known:
                return
            known = task.version
            if backend := self._backend():
                backend.put(task_document(task))

    def _backend(self) -> CopyBackend | None:
        bundle = self._bundle()
        name = bundle.task_backend_datasource
        if not name:
            return None
        datasource = bundle.datasource(name)
        if self._open is None or self._open[0] != datasource:
            self._open = (datasource, open_backend(datasource, self._resolve))
        return self._open[1]
