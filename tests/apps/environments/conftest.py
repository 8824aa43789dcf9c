"""Runners without supervisors: the loops of the inventory over engines in memory."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import connections

from apps.accounts.api import Principal, Role
from apps.agents.api import Registration, register
from apps.environments.models import DeadRun, Reap, ReapPart, StoredLook, WatchedInventory
from apps.executions.models import Execution
from apps.workers import inventory
from apps.workers.inventory import InventoryLoops
from kernel import ids
from tests.apps.executions_rest import conftest as rest
from tests.support import people
from tests.support.resources import EngineInMemory
from worker import host

ada, bob, admin = rest.ada, rest.bob, rest.admin
_nobody_remembered = rest._nobody_remembered


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch, transactional_db: object) -> None:
    monkeypatch.setattr(inventory, "POLL_S", 0.05)
    monkeypatch.setattr(inventory, "installation_id", lambda: EngineInMemory().installation_id)


class RunnerOfLoops:
    """A registered runner whose loops work on a thread, over one engine in memory."""

    def __init__(self, agent_id: str, engine: EngineInMemory) -> None:
        self.agent_id = agent_id
        self.engine = engine
        setup: Any = SimpleNamespace(agent_id=agent_id, runtime=engine)
        self._loops = InventoryLoops(lambda: [setup])
        self._thread = threading.Thread(target=lambda: asyncio.run(self._work()))
        self._loop: asyncio.AbstractEventLoop | None = None
        self._begun = threading.Event()
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> RunnerOfLoops:
        register(
            Registration(
                agent_id=self.agent_id,
                incarnation=str(ids.new_uuid()),
                kind="runner",
                backends=("local-docker",),
                host_id=host.host_id(),
                pid=os.getpid(),
                process_started_at=host.process_started_at(),
            )
        )
        self._thread.start()
        assert self._begun.wait(10)
        return self

    async def _work(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._tasks = [
            asyncio.create_task(self._loops.keep_looking()),
            asyncio.create_task(self._loops.keep_sweeping()),
        ]
        self._begun.set()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.to_thread(connections.close_all)

    def stop(self) -> None:
        """End it as a kill does: where it stands, without a word to the store."""
        if self._loop is not None and self._thread.is_alive():
            for task in self._tasks:
                self._loop.call_soon_threadsafe(task.cancel)
            self._thread.join(20)


@pytest.fixture
def start_runner() -> Iterator[Callable[..., RunnerOfLoops]]:
    started: list[RunnerOfLoops] = []

    def start(engine: EngineInMemory, agent_id: str = "runner:a") -> RunnerOfLoops:
        runner = RunnerOfLoops(agent_id, engine)
        started.append(runner)
        return runner.start()

    yield start
    for runner in started:
        runner.stop()


@pytest.fixture
def engine() -> EngineInMemory:
    return EngineInMemory()


def principal_of(caller: rest.Caller, role: Role = Role.ADMIN) -> Principal:
    return people.principal_of(caller.user, role=role)


def let_time_pass(seconds: float) -> None:
    """As if all that the inventory knows had been stored so much earlier."""
    span = timedelta(seconds=seconds)
    fields: dict[Any, list[str]] = {
        StoredLook: ["looked_at"],
        DeadRun: ["dead_since", "seen_at"],
        Reap: ["lease_expires_at", "created_at", "ready_at", "finished_at"],
        ReapPart: ["lease_expires_at"],
        WatchedInventory: ["watched_until", "look_wanted_at"],
        Execution: ["finished_at"],
    }
    for model, names in fields.items():
        for row in model.objects.all():
            changed = {
                name: value - span for name in names if (value := getattr(row, name)) is not None
            }
            model.objects.filter(pk=row.pk).update(**changed)
