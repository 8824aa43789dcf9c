"""A watcher on a loop of its own, a clock that tests move, and a gRPC orchestrator that heals."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import grpc
import grpc.aio
from django.db import connection

from sync_stack.core.sink import Destination
from sync_stack.orchestrator.models import Drift, LedgerTarget
from sync_stack.orchestrator.selectors import tasks
from sync_stack.orchestrator.server.grpc_messages import task_message
from sync_stack.orchestrator.services.triggers import Heal, trigger_heal
from sync_stack.rpc.channel import SERVER_OPTIONS, OrchestratorChannel
from sync_stack.rpc.gen.partita.sync.v1 import orchestrator_pb2 as pb
from sync_stack.rpc.gen.partita.sync.v1.orchestrator_pb2_grpc import (
    OrchestratorServicer,
    add_OrchestratorServicer_to_server,
)
from sync_stack.watcher.drift_check import DriftChecker
from sync_stack.watcher.heal_requests import Healer, HealSettings
from sync_stack.watcher.heal_state import HealStates, PrimaryHealStateStore
from sync_stack.watcher.metrics import WatcherMetrics
from sync_stack.watcher.poller import Poller
from sync_stack.watcher.threads import WatcherThreads
from tests.support.sync_world import World

T = TypeVar("T")
PLACE = Destination(kind="fake", name="production-shop", address="fake://memory/production-shop")


class Loop:
    """An event loop on a thread, so that tests themselves use the store as usual.

    It ends with the watchers on it, also those of a test that fails: a server that is left would
    complain in a later one.
    """

    def __enter__(self) -> Loop:
        self.closers: list[Callable[[], None]] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        return self

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout=180)

    def __exit__(self, *_: object) -> None:
        for close in self.closers:
            close()
        self.do(self._finish())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _finish(self) -> None:
        await asyncio.get_running_loop().shutdown_default_executor()


class Orchestrator(OrchestratorServicer):
    """Heals for real, unless `failing` (a status) or `ends` (state, message) say otherwise."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.calls: list[Any] = []
        self.failing: grpc.StatusCode | None = None
        self.ends: tuple[Any, str] | None = None
        self.before_heal: Callable[[], None] = lambda: None
        self.known: dict[str, Any] = {}

    async def TriggerSync(self, request: Any, context: Any) -> Any:  # noqa: N802
        self.calls.append(request)
        if self.failing is not None:
            await context.abort(self.failing, "as the test says")
        if self.ends is not None:
            task_id = f"task-{request.idempotency_key[:8]}"
            state, message = self.ends
            self.known[task_id] = pb.Task(task_id=task_id, state=state, message=message)
            return pb.TriggerSyncResponse(task_id=task_id)
        return await asyncio.to_thread(_closing, lambda: self._heal(request))

    def _heal(self, request: Any) -> Any:
        self.before_heal()
        heal = Heal(
            datasource=request.datasource,
            platform=request.platform,
            rule=request.rule_id,
            repo=request.repo,
            env=request.env,
            destination_id=request.destination_id,
            idempotency_key=request.idempotency_key,
            ref=request.ref,
            commit=request.commit,
            generation=request.generation,
            drift_id=request.delivery_id,
        )
        created = trigger_heal(heal, self.world.bundle, self.world.published.extend)
        if not created.duplicate:
            self.world.finish(created.task)
        return pb.TriggerSyncResponse(task_id=created.task.id, duplicate=created.duplicate)

    async def GetTask(self, request: Any, _context: Any) -> Any:  # noqa: N802
        if request.task_id in self.known:
            return self.known[request.task_id]
        return await asyncio.to_thread(_closing, lambda: task_message(_known(request.task_id)))


def _known(task_id: str) -> Any:
    task = tasks.get(task_id)
    assert task is not None
    return task


def _closing(act: Callable[[], T]) -> T:
    try:
        return act()
    finally:
        connection.close()


class Watching:
    """`poll` is one cycle and the heals that it begins. Sleeping moves the clock."""

    def __init__(
        self, world: World, loop: Loop, orchestrator: Orchestrator | None = None, **checker: Any
    ) -> None:
        self.world, self.loop = world, loop
        self.orchestrator = orchestrator or Orchestrator(world)
        self.time = datetime(2026, 11, 21, tzinfo=UTC)
        self.leads = True
        self.metrics = WatcherMetrics(version="test")
        self.checker = DriftChecker(
            bundle=lambda: world.bundle,
            open_sink=checker.pop("open_sink", world.open_sink),
            heal_states=HealStates(checker.pop("copies", PrimaryHealStateStore), 60),
            metrics=self.metrics,
            now=lambda: self.time,
            **checker,
        )
        loop.do(self._open())
        loop.closers.append(self.close)

    async def _open(self) -> None:
        self.server = grpc.aio.server(options=SERVER_OPTIONS)
        add_OrchestratorServicer_to_server(self.orchestrator, self.server)
        port = self.server.add_insecure_port("127.0.0.1:0")
        await self.server.start()
        self.channel = OrchestratorChannel(f"127.0.0.1:{port}", None)
        self.threads = WatcherThreads(self.checker, 4)
        self.healer = Healer(
            checker=self.checker,
            channel=self.channel,
            threads=self.threads,
            settings=HealSettings(call_timeout_s=20),
            leads=lambda: self.leads,
            monotonic=lambda: self.time.timestamp(),  # noqa: PLW0108 - time moves
            sleep=self._sleep,
        )
        self.poller = Poller(
            self.checker,
            self.healer,
            self.threads,
            bundle=lambda: self.world.bundle,
            interval_s=60,
        )

    async def _sleep(self, seconds: float) -> None:
        self.time += timedelta(seconds=seconds)
        await asyncio.sleep(0.01)

    def poll(self, *, after_s: float = 60) -> None:
        self.time += timedelta(seconds=after_s)
        self.loop.do(self._cycle())

    async def _cycle(self) -> None:
        await self.poller.cycle("sink")
        await self.settled()

    async def settled(self) -> None:
        heals = self.poller._heals
        while running := [task for name, task in heals.items() if not name.startswith("again")]:
            await asyncio.gather(*running)

    def stop(self) -> None:
        """As a kill would: whatever it was at, it does no more."""
        self.leads = False

        async def cancel() -> None:
            every = list(self.poller._heals.values())
            for task in every:
                task.cancel()
            await asyncio.gather(*every, return_exceptions=True)

        self.loop.do(cancel())

    def close(self) -> None:
        self.stop()

        async def end() -> None:
            await self.channel.close(0)
            await self.server.stop(0)
            assert await self.threads.close(10)

        self.loop.do(end())

    def by_hand(self, key: str = "a", value: str = "9") -> None:
        self.world.sink.put_by_hand(PLACE, key, {key: value})

    def put_other_type(self, key: str = "a") -> None:
        self.world.sink.put_other_type(PLACE, key)

    def forget(self, key: str = "a") -> None:
        del self.world.sink._place(PLACE).records[key]

    def values(self) -> dict[str, str]:
        return self.world.values()

    @property
    def unit(self) -> LedgerTarget:
        return LedgerTarget.objects.get(rule_id="shop", env="production")

    @property
    def episodes(self) -> list[Drift]:
        return list(Drift.objects.order_by("id"))

    @property
    def states(self) -> list[str]:
        return [row.state for row in self.episodes]

    def count(self, name: str, **labels: str) -> float:
        full = {"datasource": "sink", **labels}
        return self.metrics.registry.get_sample_value(f"svc_watcher_{name}_total", full) or 0.0


def waited(ready: Callable[[], bool], seconds: float = 10) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if ready():
            return True
        time.sleep(0.02)
    return False
