"""Random histories of environments: runs come, crash, are adopted, kept and extended; two reap.

`environment_histories` plays many of them. The engine, the clock and the two runners are in memory;
looks, marks, leases and sweeps are the real ones, on a store in memory. In the middle of a sweep
anything may happen that may happen between two, also the end of its runner.
"""

from __future__ import annotations

import contextlib
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, Final
from unittest.mock import patch

from apps.agents.api import Registration, register
from apps.agents.models import Agent
from apps.environments import api
from apps.environments.domain.reaps import ALL_ENVIRONMENTS, ReapInProgress
from apps.environments.models import DeadRun, Reap, StoredLook, WatchedInventory
from apps.environments.selectors import read_inventory
from apps.environments.services import inventory_looks, reaps
from apps.executions.models import Execution, Snapshot
from apps.workers import inventory
from apps.workers.inventory import ReachedRuntime, Sweep, look_at
from kernel import clock
from kernel.agent_protocol import ResourceKind, RuntimeResource
from tests.support.resources import EngineInMemory, labels
from worker.domain import ownership

RUNNERS: Final = ("runner:a", "runner:b")
STEPS: Final = 60
KINDS: Final[tuple[ResourceKind, ...]] = ("container", "network", "volume")
BEGIN: Final = datetime(2026, 11, 27, 12, 0, tzinfo=UTC)
WORKSPACE: Final = "00000000-0000-4000-8000-000000000001"


class Killed(BaseException):
    """The runner that sweeps was killed."""


@dataclass
class History:
    """One history. `done` counts what happened in it, so that a table shows what was tried."""

    draw: random.Random
    engine: EngineInMemory = field(default_factory=EngineInMemory)
    now: datetime = BEGIN
    alive: set[str] = field(default_factory=lambda: set(RUNNERS))
    runs: dict[str, str] = field(default_factory=dict)  # run id → its runner
    done: Counter[str] = field(default_factory=Counter)
    foreign: set[tuple[str, str]] = field(default_factory=set)
    number: int = 0
    depth: int = 0  # of sweeps inside each other
    sweeping: list[api.SweepPart] = field(default_factory=list)

    def play(self) -> None:
        for runner in RUNNERS:
            self.register(runner)
        for _ in range(STEPS):
            self.act(self.draw.choice(self.actions()))
        self.finish()

    def actions(self) -> list[Callable[[], object]]:
        return [
            self.create,
            self.create,
            self.grow,
            self.end,
            self.crash,
            self.adopt,
            self.keep,
            self.extend,
            self.pass_time,
            self.pass_time,
            self.look,
            self.look,
            self.look,
            self.hunt,
            self.hunt,
            self.begin_one,
            self.begin_all,
            self.begin_zombies,
            self.begin_zombies,
            self.mark,
            self.mark,
            self.mark,
            self.sweep,
            self.sweep,
            self.sweep,
            self.intrude,
            self.replace,
        ]

    def act(self, action: Callable[[], object]) -> None:
        if action() is not False:
            self.done[action.__name__] += 1

    # Runs and their supervisors

    def register(self, runner: str) -> None:
        self.number += 1
        register(
            Registration(
                agent_id=runner, incarnation=str(self.number), kind="runner", host_id="h", pid=1
            )
        )
        self.alive.add(runner)

    def beat(self) -> None:
        Agent.objects.filter(agent_id__in=self.alive).update(last_heartbeat_at=self.now)

    def create(self) -> None:
        self.number += 1
        run_id = f"run-{self.number:012x}"
        runner = self.draw.choice(RUNNERS)
        Execution.objects.create(
            run_id=run_id,
            workspace_id=WORKSPACE,
            owner_id=WORKSPACE,
            snapshot=Snapshot.objects.get(digest="histories"),
            suite_id="shop",
            suite_title="Shop",
            backend_id="local",
            backend_label="Local",
            backend_kind="local",
            trigger="API",
            status="Booting",
            started_at=self.now,
            updated_at=self.now,
            bound_agent_id=runner,
        )
        self.runs[run_id] = runner
        for kind in KINDS:
            self.put(run_id, kind)

    def put(self, run_id: str, kind: ResourceKind, **label: str) -> RuntimeResource:
        self.number += 1
        name = f"{kind}-{self.number}"
        made = RuntimeResource(
            kind=kind,
            id=name,
            name=name,
            created_at=self.now.replace(microsecond=0),
            labels=labels(run_id, orchestrator_id=self.runs.get(run_id, ""), **label),
            state="running" if kind == "container" else "",
        )
        self.engine.put(made)
        return made

    def grow(self) -> bool:
        """A living supervisor starts another step."""
        row = self.any_run(status="Booting")
        if row is None or self.runs[row.run_id] not in self.alive:
            return False
        self.put(row.run_id, self.draw.choice(KINDS))
        return True

    def any_run(self, **wanted: Any) -> Execution | None:
        rows = list(Execution.objects.filter(run_id__in=list(self.runs), **wanted))
        return self.draw.choice(rows) if rows else None

    def end(self) -> bool:
        """A run fails; sometimes its world is kept from the first moment on."""
        row = self.any_run(status="Booting")
        if row is None:
            return False
        kept = self.now + timedelta(minutes=5) if self.draw.random() < 0.4 else None
        Execution.objects.filter(pk=row.pk).update(
            status="Failed", finished_at=self.now, keep_alive_until=kept, bound_agent_id=""
        )
        return True

    def crash(self) -> bool:
        if len(self.alive) < len(RUNNERS):
            return False
        self.alive.discard(self.draw.choice(RUNNERS))
        return True

    def adopt(self) -> bool:
        gone = sorted(set(RUNNERS) - self.alive)
        if not gone:
            return False
        self.register(gone[0])
        return True

    def keep(self) -> bool:
        row = self.any_run(status="Failed", keep_alive_until=None)
        if row is None:
            return False
        until = self.now + timedelta(minutes=self.draw.randint(1, 9))
        return bool(Execution.objects.filter(pk=row.pk).update(keep_alive_until=until))

    def extend(self) -> bool:
        row = self.any_run(keep_alive_until__gt=self.now)
        if row is None:
            return False
        until = self.now + timedelta(minutes=self.draw.randint(1, 20))
        return bool(Execution.objects.filter(pk=row.pk).update(keep_alive_until=until))

    def pass_time(self) -> None:
        self.now += timedelta(seconds=self.draw.choice((1, 5, 16, 31, 65, 125)))
        self.beat()

    # What is not ours

    def intrude(self) -> None:
        """A resource of another installation, or one without the label, with the id of our run."""
        run_id = self.draw.choice([*self.runs, "run-ffffffffffff"])
        label = self.draw.choice(({"installation": "another"}, {"managed": "no"}))
        made = self.put(run_id, self.draw.choice(KINDS), **label)
        self.foreign.add((made.kind, made.id))

    def replace(self) -> bool:
        """Somebody removes a resource of ours and makes a foreign one with its id."""
        ours = [key for key in self.engine.resources if key not in self.foreign]
        if not ours:
            return False
        kind, id_ = key = self.draw.choice(sorted(ours))
        old = self.engine.resources[key]
        self.engine.put(
            RuntimeResource(
                kind=old.kind,
                id=id_,
                name=old.name,
                created_at=old.created_at,
                labels={**old.labels, ownership.INSTALLATION: "another"},
                state=old.state,
            )
        )
        self.foreign.add((kind, id_))
        return True

    # Looks and reaps

    def look(self) -> bool:
        if not self.alive:
            return False
        runner = self.draw.choice(sorted(self.alive))
        self.beat()
        engine = ReachedRuntime(runner, self.engine)  # type: ignore[arg-type]
        api.record_look(run_now(look_at(engine, frozenset())))
        return True

    def begin(self, target: str, found: list[Any], *, only_zombies: bool = False) -> bool:
        if not found:
            return False
        with contextlib.suppress(ReapInProgress):
            reaps.begin_reap("somebody", target, found, only_zombies=only_zombies)
            return True
        return False

    def begin_one(self) -> bool:
        found = list(read_inventory().environments)
        if not found:
            return False
        one = self.draw.choice(found)
        return self.begin(one.sandbox_id, [one])

    def begin_all(self) -> bool:
        if self.draw.random() < 0.8:
            return False  # else there is nothing left to go wrong
        return self.begin(ALL_ENVIRONMENTS, list(read_inventory().environments))

    def begin_zombies(self) -> bool:
        found = [each for each in read_inventory().environments if each.is_zombie]
        return self.begin(ALL_ENVIRONMENTS, found, only_zombies=True)

    def hunt(self) -> bool:
        """Look twice, far enough apart, and begin a sweep of the zombies that this finds."""
        for pause_s in (70, 35):
            if not self.look():
                return False
            self.now += timedelta(seconds=pause_s)
            self.beat()
        return self.look() and self.begin_zombies()

    def mark(self) -> bool:
        row = Reap.objects.filter(state="marking").first()
        return row is not None and reaps.mark(row.pk)

    def cancel(self, run_id: str, *, by: str) -> bool:
        """A run is canceled; its steps end at once, or never."""
        del by
        row = Execution.objects.filter(run_id=run_id).first()
        if row is None or row.status in ("Failed", "Canceled"):
            return False
        ends = self.draw.random() < 0.7
        Execution.objects.filter(pk=row.pk).update(
            status="Canceled" if ends else "Canceling", finished_at=self.now if ends else None
        )
        return not ends

    def sweep(self) -> bool:
        """A living runner takes a part; anything may happen between two of its calls."""
        if self.depth >= 2 or not self.alive:
            return False
        runner = self.draw.choice(sorted(self.alive))
        holder = f"{runner} {self.depth} {self.number}"
        part = api.take_part(runner, holder)
        if part is None:
            return False
        self.depth += 1
        self.sweeping.append(part)
        try:
            run_now(self.run_sweep(part, runner, holder))
        except Killed:
            self.done["killed"] += 1
        except inventory.LostPart:
            self.done["lost"] += 1
        finally:
            self.depth -= 1
            self.sweeping.pop()
        return True

    async def run_sweep(self, part: api.SweepPart, runner: str, holder: str) -> None:
        engine = Interrupted(self.engine, self.interrupt)
        await Sweep(part, ReachedRuntime(runner, engine), holder).run()  # type: ignore[arg-type]

    def interrupt(self) -> None:
        """Called before each look of a sweep at a resource."""
        dice = self.draw.random()
        if dice < 0.05:
            raise Killed
        if dice < 0.45:
            self.act(self.draw.choice(self.actions()))

    def check_removal(self, resource: RuntimeResource) -> None:
        part = self.sweeping[-1]
        key = resource.kind, resource.id
        assert key not in self.foreign, f"foreign: {resource}"
        assert ownership.is_owned(resource.labels, self.engine.installation_id)
        run_id = resource.labels.get(ownership.RUN_ID, "")
        marked = {(each.kind, each.resource.id) for each in part.resources}
        assert key in marked or run_id in part.run_ids, f"not marked: {resource}"
        if part.only_zombies:
            row = Execution.objects.get(run_id=run_id)
            kept = row.keep_alive_until
            assert kept is None or kept <= self.now, f"kept: {run_id}"
            if row.status not in ("Failed", "Canceled"):
                agent = Agent.objects.get(agent_id=row.bound_agent_id or self.runs[run_id])
                silent = self.now - agent.last_heartbeat_at
                assert silent > timedelta(seconds=120), f"{run_id} lives: {silent}"
        self.done["removed_zombies" if part.only_zombies else "removed"] += 1

    def finish(self) -> None:
        """Everything ends, both runners live, and one reap of everything leaves nothing of ours."""
        for runner in RUNNERS:
            self.register(runner)
        self.now += timedelta(minutes=30)
        self.beat()
        Execution.objects.filter(run_id__in=list(self.runs)).update(
            status="Failed", finished_at=self.now - timedelta(minutes=20), keep_alive_until=None
        )
        self.interrupt = lambda: None  # type: ignore[method-assign]
        for _ in range(8):
            api.continue_reaps()
            for runner in RUNNERS:
                self.draw_look(runner)
            self.begin(ALL_ENVIRONMENTS, list(read_inventory().environments))
            self.mark()
            while self.sweep():
                pass
            self.now += timedelta(seconds=20)
            self.beat()
        left = {key for key in self.engine.resources if key not in self.foreign}
        assert not left, f"ours are left: {left}"
        assert set(self.engine.resources) == self.foreign, "foreign resources are gone"
        assert not Reap.objects.exclude(state="done").exists()

    def draw_look(self, runner: str) -> None:
        engine = ReachedRuntime(runner, self.engine)  # type: ignore[arg-type]
        api.record_look(run_now(look_at(engine, frozenset())))


@dataclass
class Interrupted:
    """An engine before whose answers about one resource anything may happen."""

    engine: EngineInMemory
    interrupt: Callable[[], None]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.engine, name)

    async def look_at(self, wanted: RuntimeResource) -> RuntimeResource | None:
        self.interrupt()
        return await self.engine.look_at(wanted)


def run_now(work: Any) -> Any:
    """Drive a coroutine that waits for nothing, also inside another one."""
    try:
        work.send(None)
    except StopIteration as end:
        return end.value
    raise AssertionError("nothing of a history may wait")


async def directly(work: Callable[..., Any], /, *arguments: Any) -> Any:
    return work(*arguments)


class NoTimeout:
    async def __aenter__(self) -> None:
        return None

    async def __aexit__(self, *_error: object) -> None:
        return None


@contextlib.contextmanager
def simulated(history: History) -> Iterator[None]:
    """The clock, threads and timeouts of a history."""
    history.engine.before_removal = history.check_removal
    loop = SimpleNamespace(time=lambda: history.now.timestamp())  # noqa: PLW0108 - it moves on
    simulated_asyncio = SimpleNamespace(
        get_running_loop=lambda: loop, timeout=lambda _seconds: NoTimeout()
    )
    with contextlib.ExitStack() as patches:
        for target, name, replacement in (
            (clock, "now", lambda: history.now),
            (inventory, "on_store_thread", directly),
            (inventory, "asyncio", simulated_asyncio),
            (inventory, "installation_id", lambda: history.engine.installation_id),
            (inventory, "RENEW_EVERY_S", 0),
            (reaps, "cancel_run_of_environment", history.cancel),
        ):
            patches.enter_context(patch.object(target, name, replacement))
        yield


def run(histories: int, seed: int | str) -> Counter[str]:
    """Play the histories, each with a seed of its own; return how often each thing happened."""
    done: Counter[str] = Counter()
    for number in range(histories):
        clear()
        history = History(random.Random(f"{seed} {number}" if histories > 1 else seed))
        try:
            with simulated(history):
                history.play()
        except BaseException:
            sys.stderr.write(f"history {number} of seed {seed}\n")
            raise
        done += history.done
    clear()
    return done


def clear() -> None:
    for model in (Reap, StoredLook, DeadRun, WatchedInventory, Execution, Agent):
        model.objects.all().delete()
    Snapshot.objects.filter(digest="histories").delete()
    Snapshot.objects.create(digest="histories", document=b"", created_at=BEGIN)
    inventory_looks.ensure_row()
