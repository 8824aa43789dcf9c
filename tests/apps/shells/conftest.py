"""Shells over a runtime in memory: kept runs, callers, and a runner of the loop alone."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import connections

from apps.accounts.api import Role
from apps.accounts.models import Membership
from apps.accounts.services.sign_up import sign_up
from apps.executions.models import Execution, Step
from apps.shells.domain.records import output_bytes, output_topic
from apps.shells.models import ShellSession
from apps.streams.api import read
from apps.workers import served_shell
from apps.workers import shells as loop_module
from apps.workers.shells import ShellLoop
from kernel import clock
from tests.apps.environments import conftest as environments
from tests.apps.executions_rest import conftest as rest
from tests.support.fake_shells import FakeShell, RuntimeWithShells
from tests.support.processes import until

ada, bob, admin = rest.ada, rest.bob, rest.admin
_nobody_remembered = rest._nobody_remembered
principal_of = environments.principal_of
AGENT = "runner:a"


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_module, "POLL_S", 0.05)
    monkeypatch.setattr(served_shell, "LOOK_EVERY_S", 0.05)
    monkeypatch.setattr(served_shell, "RENEW_EVERY_S", 0.1)


@pytest.fixture
def viewer(ada: rest.Caller) -> rest.Caller:
    """A member of Ada's workspace who may only look."""
    user = sign_up(full_name="Vi", email="vi@example.org", password=rest.PASSWORD)
    Membership.objects.create(user=user, workspace_id=ada.workspace_id, role=Role.VIEWER)
    user.workspace_id = ada.workspace_id
    user.save()
    return rest.caller(user)


def keep_run(caller: rest.Caller, **fields: Any) -> Execution:
    """A run that has failed, whose environment is kept for 30 min."""
    facts: dict[str, Any] = {
        "statuses": ("healthy", "failed", "skipped"),
        "status": "Failed",
        "owner_id": caller.user.pk,
        "bound_agent_id": AGENT,
        "backend_kind": "local",
        "keep_alive_ms": 1_800_000,
        "keep_alive_until": clock.now() + timedelta(minutes=30),
        "finished_at": clock.now(),
        **fields,
    }
    run = rest.make_run(caller.workspace_id, **facts)
    Step.objects.filter(execution=run).exclude(status="skipped").update(
        agent_id=AGENT, unit_started_at=clock.now()
    )
    return run


def live_run(caller: rest.Caller, **fields: Any) -> Execution:
    """A run that goes on, with a healthy service."""
    return keep_run(
        caller,
        status="Booting",
        statuses=("healthy", "running", "pending"),
        keep_alive_until=None,
        keep_alive_ms=0,
        finished_at=None,
        **fields,
    )


class RunnerOfShells:
    """The loop of shells on a thread, over one runtime in memory."""

    def __init__(self, runtime: RuntimeWithShells, agent_id: str = AGENT) -> None:
        self.runtime = runtime
        setup: Any = SimpleNamespace(agent_id=agent_id, runtime=runtime)
        self._setups = [setup]
        self._thread = threading.Thread(target=lambda: asyncio.run(self._work()))
        self._loop: asyncio.AbstractEventLoop | None = None
        self._begun = threading.Event()

    def start(self) -> RunnerOfShells:
        self._thread.start()
        assert self._begun.wait(10)
        return self

    async def _work(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._shells = ShellLoop(lambda: self._setups)
        self._task = asyncio.create_task(self._shells.keep_serving())
        self._begun.set()
        await asyncio.gather(self._task, return_exceptions=True)
        await asyncio.to_thread(connections.close_all)

    def stop(self) -> None:
        """End it in good order."""
        if self._loop is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._task.cancel)
            self._thread.join(20)

    def crash(self) -> None:
        """End it as a kill does: where it stands, without a word to the store."""
        for task in self._shells._tasks:
            served = task.get_coro().cr_frame.f_locals["self"]  # type: ignore[union-attr]
            served._holder = "nobody"
        self.stop()

    def do(self, work: Callable[[], object]) -> None:
        """Do something on the runner's loop, where the shells are."""
        assert self._loop is not None
        self._loop.call_soon_threadsafe(work)


@pytest.fixture
def start_runner() -> Iterator[Callable[..., RunnerOfShells]]:
    started: list[RunnerOfShells] = []

    def start(runtime: RuntimeWithShells, agent_id: str = AGENT) -> RunnerOfShells:
        runner = RunnerOfShells(runtime, agent_id)
        started.append(runner)
        return runner.start()

    yield start
    for runner in started:
        runner.stop()


@pytest.fixture
def runtime() -> RuntimeWithShells:
    return RuntimeWithShells()


def shown(shell_id: object) -> bytes:
    """What the session has written, as the store has it."""
    chunks = read(output_topic(str(shell_id)), after=0, limit=100_000)
    return b"".join(output_bytes(record) for chunk in chunks for record in chunk.records)


def await_text(shell_id: object, text: bytes) -> bytes:
    until(lambda: text in shown(shell_id), within_s=20, what=f"the shell writes {text!r}")
    return shown(shell_id)


def await_state(shell_id: object, state: str) -> ShellSession:
    def is_there() -> bool:
        return ShellSession.objects.get(pk=str(shell_id)).state == state

    until(is_there, within_s=20, what=f"the shell is {state}")
    return ShellSession.objects.get(pk=str(shell_id))


def await_shell(runtime: RuntimeWithShells, shell_id: object) -> FakeShell:
    deadline = time.monotonic() + 20
    while str(shell_id) not in runtime.opened and time.monotonic() < deadline:
        time.sleep(0.01)
    return runtime.opened[str(shell_id)]
