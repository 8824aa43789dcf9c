"""The world of a random history: rules that change, a Git in memory, workers that are disturbed."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from django.db import OperationalError

from kernel import clock
from sync_stack.core.bundle.file_maps import FileEnvironment
from sync_stack.core.bundle.rules import (
    Cleanup,
    CleanupAction,
    OnMissingFile,
    Prune,
    Rule,
    SyncMode,
)
from sync_stack.core.sink import Destination
from sync_stack.orchestrator.models import (
    Counter,
    DestinationLock,
    Drift,
    JournalChunk,
    LedgerTarget,
    RefRecord,
    Task,
    WatchState,
)
from sync_stack.orchestrator.selectors import ledgers
from sync_stack.orchestrator.services.deliveries import DeliveryRefused
from sync_stack.orchestrator.services.execution.rule_scope import rule_digest
from sync_stack.orchestrator.services.execution.task_runner import run_task
from sync_stack.orchestrator.services.reconcile import reconcile
from sync_stack.orchestrator.services.sweeps import LostWorkerDetector
from sync_stack.orchestrator.services.triggers import Heal, trigger_heal
from sync_stack.watcher.drift_check import CheckOutcome, DriftChecker
from sync_stack.watcher.heal_state import HealStates, PrimaryHealStateStore
from sync_stack.watcher.metrics import WatcherMetrics
from tests.faults.model_broker import ModelBroker
from tests.support.fake_sink import Layout
from tests.support.git_model import MAIN, GitModel
from tests.support.sync_chaos import Chaos, DisturbedSink, Plan, Witness
from tests.support.sync_world import World, rule

APP, EXTRA, MANY = "app.json", "extra.json", ("many/a.json", "many/b.json")
FILES: Final = (APP, EXTRA, *MANY)
BRANCHES: Final = ("main", "develop", "feature-a", "feature-b")
GONE: Final = "0" * 40
FREE: Final = Prune(enabled=True, max_delete_ratio=1.0, allow_empty=True)
PRUNES: Final = {
    "off": Prune(),
    "on": FREE,
    "guarded": Prune(enabled=True),
    "dry": Prune(enabled=True, dry_run=True, max_delete_ratio=1.0, allow_empty=True),
    "protecting": Prune(enabled=True, max_delete_ratio=1.0, allow_empty=True, protection=("k1",)),
}
ROWS: Final = (
    Counter,
    Drift,
    JournalChunk,
    DestinationLock,
    LedgerTarget,
    RefRecord,
    Task,
    WatchState,
)


@dataclass
class Wishes:
    """What the bundle says at the moment; every field is one that an operator may change."""

    prune: str = "on"
    mode: SyncMode = SyncMode.AUTO
    heals: bool = True
    moved: bool = False
    renamed: bool = False
    dry_run: bool = False
    fails_missing: bool = False
    literal: bool = True
    extra: bool = False
    features: bool = True
    many: bool = True

    def rules(self) -> tuple[Rule, ...]:
        shop = self._rule(
            name="renamed" if self.renamed else "shop",
            file_name=APP,
            destination_template="moved-{env}" if self.moved else "{env}-{repo}",
            dry_run=self.dry_run,
        )
        extra = self._rule(
            name="extra", file_name=EXTRA, branch_map={"main": "production"}
        )  # shares a destination with the first
        features = self._rule(
            name="features",
            file_name=APP,
            branch_map={},
            branches=("feature-*",),
            env_as_branch=True,
            destination_template="f-{env}",
            cleanup=Cleanup(on_branch_delete=CleanupAction.PRUNE),
        )
        many = self._rule(
            name="many",
            file_name="",
            file_path_map=tuple(FileEnvironment(path=path, env="all") for path in MANY),
            branch_map={"main": "production"},
            destination_template="many-{env}",
        )
        wanted = [(True, shop), (self.extra, extra), (self.features, features), (self.many, many)]
        return tuple(each for wished, each in wanted if wished)

    def _rule(self, **fields: Any) -> Rule:
        known: dict[str, Any] = {
            "repositories": ("acme/shop",) if self.literal else ("acme/*",),
            "prune": PRUNES[self.prune],
            "sync_mode": self.mode,
            "self_heal": self.heals,
            "on_missing_file": OnMissingFile.FAIL if self.fails_missing else OnMissingFile.KEEP,
        }
        return rule(**known | fields)


@dataclass
class Post:
    """A delivery of the Git host; it may come never, late, or often."""

    key: str
    body: dict[str, Any]


@dataclass
class History(World):
    """`theirs`: records that somebody else wrote and nobody of ours may touch."""

    layout: Layout = Layout.HASH
    wishes: Wishes = field(default_factory=Wishes)
    chaos: Chaos = field(init=False)
    git: GitModel = field(init=False)
    posts: list[Post] = field(default_factory=list)
    accepted: dict[str, str] = field(default_factory=dict)  # task → key
    theirs: dict[tuple[str, str], dict[str, str]] = field(default_factory=dict)
    touched: set[tuple[str, str]] = field(default_factory=set)
    broker: ModelBroker = field(default_factory=ModelBroker)
    heals: int = 0
    wrong: list[str] = field(default_factory=list)  # where an exception would be swallowed

    def __post_init__(self) -> None:
        self.published = self.broker  # type: ignore[assignment]  # all that World does is extend
        self.chaos = Chaos(self.act)
        self.git = GitModel(self.chaos.point)
        self.repository = self.git  # type: ignore[assignment]
        self.witness = Witness(on_write=self.take_note, on_delete=self.check_delete)
        self.sink = DisturbedSink(self.layout, self.chaos, self.witness)
        self.rules = self.wishes.rules()
        self.recovery = LostWorkerDetector(clock=lambda: self.chaos.now)
        self.checker = DriftChecker(
            bundle=lambda: self.bundle,
            open_sink=self.open_sink,
            heal_states=HealStates(PrimaryHealStateStore, 60),
            metrics=WatcherMetrics(version="test"),
            now=lambda: clock.now(),  # noqa: PLW0108 - histories replace `clock.now` later
        )

    def ports(self, **other: Any) -> Any:
        return super().ports(repositories=self.git, **other)

    def change(self, branch: str, file: str, text: str | None) -> None:
        ref = f"refs/heads/{branch}"
        before = self.git.heads.get(ref, GONE)
        self._post(ref, before, self.git.commit(ref, {file: text}))

    def rewind(self, branch: str, back: int) -> None:
        """A force push to what the branch, or another one, was before."""
        ref = f"refs/heads/{branch}"
        known = list(self.git.commits)
        before, after = self.git.heads.get(ref, GONE), known[-1 - back % len(known)]
        self.git.move(ref, after)
        self._post(ref, before, after, forced=True)

    def remove(self, branch: str) -> None:
        ref = f"refs/heads/{branch}"
        if ref in self.git.heads and ref != MAIN:
            before = self.git.heads[ref]
            self.git.move(ref, "")
            self._post(ref, before, GONE, deleted=True)

    def _post(self, ref: str, before: str, after: str, **more: Any) -> None:
        repository = {"full_name": self.git.name}
        body = {"ref": ref, "before": before, "after": after, "repository": repository, **more}
        self.posts.append(Post(f"delivery {len(self.posts)}", body))

    def bring(self, post: Post, plan: Plan = ()) -> None:
        """What is answered 202 is noted; what fails may be sent again."""

        def accept() -> None:
            try:
                task = self.deliver("push", post.body, key=post.key)
            except (DeliveryRefused, OperationalError):
                return
            self.accepted[task.id] = post.key

        self.chaos.process(plan, accept)

    def waiting(self) -> list[Task]:
        return list(Task.objects.filter(state__in=["PENDING", "RETRYING"]).order_by("id"))

    def work(self, number: int, plan: Plan = ()) -> None:
        """A worker takes one of the tasks that wait; time has passed for it."""
        if waiting := self.waiting():
            task = waiting[number % len(waiting)]
            Task.objects.filter(id=task.id, state="RETRYING").update(next_attempt_at=None)
            self.chaos.process(plan, lambda: self._execute(task.id))

    def work_off_messages(self) -> int:
        """Time passes, and workers take what the broker then holds; how many messages."""
        Task.objects.filter(state="RETRYING").update(next_attempt_at=clock.now())
        self.broker.pass_time()
        taken = self.broker.take()
        for task_id in taken:
            self.chaos.process((), partial(self._execute, task_id))
        return len(taken)

    def _execute(self, task_id: str) -> None:
        with suppress(OperationalError):  # before the claim: the worker logs it
            run_task(task_id, self.ports())

    def recover(self) -> None:
        """All that run now have stood still for longer than a lost worker may."""
        self.recovery.sweep(self.published.extend)
        self.chaos.now += 26.0
        self.recovery.sweep(self.published.extend)

    def look(self, plan: Plan = ()) -> int:
        """The reconcile sweep; how many tasks it made."""
        made = [0]

        def sweep() -> None:
            try:
                made[0] = reconcile(self.ports())
            except OperationalError:
                return

        self.chaos.process(plan, sweep)
        return made[0]

    def watch(self) -> int:
        """The watcher looks at every unit; how many heals it asked for."""
        asked = 0
        for unit in LedgerTarget.objects.order_by("id"):
            found = self.checker.check(unit.id)
            wanted = found.outcome is CheckOutcome.READ and found.comparison
            if wanted and self._heals(unit):
                self._heal(unit)
                asked += 1
        return asked

    def _heals(self, unit: LedgerTarget) -> bool:
        """A unit of a rule that was changed since is healed no more: its next sync is due first."""
        rule = next(each for each in self.rules if each.name == unit.rule_id)
        same = unit.rule_digest == rule_digest(self.bundle, rule)
        return rule.self_heal and not rule.dry_run and same

    def _heal(self, unit: LedgerTarget) -> None:
        self.heals += 1
        heal = Heal(
            datasource=unit.datasource,
            rule=unit.rule_id,
            repo=unit.repo,
            env=unit.env,
            destination_id=unit.destination_id,
            idempotency_key=f"heal {self.heals}",
            commit=unit.commit,
            generation=unit.generation,
        )
        trigger_heal(heal, self.bundle, self.published.extend)

    def by_hand(self, destination: str, key: str, value: str | None) -> None:
        """Somebody else writes or removes one key, or, of whole records, one key inside ours."""
        place = self.sink._place(self.place(destination))
        self.touched.add((destination, key))
        whole = self.sink.capabilities.whole_records and not key.startswith("x")
        if whole:
            self._inside(destination, key, value)
        elif value is None:
            place.records.pop(key, None)
            self.theirs.pop((destination, key), None)
        else:
            if (destination, key) in self.theirs or self._is_nobodys(destination, key):
                self.theirs[destination, key] = {key: value}
            self.sink.put_by_hand(self.place(destination), key, {key: value})

    def _inside(self, destination: str, key: str, value: str | None) -> None:
        records = self.sink._place(self.place(destination)).records
        ours = sorted(name for name, record in records.items() if record.mark)
        if ours:
            values = dict(records[ours[0]].values) | ({key: value} if value is not None else {})
            if value is None:
                values.pop(key, None)
            self.sink.drift_inside(self.place(destination), ours[0], values)

    def _is_nobodys(self, destination: str, key: str) -> bool:
        if key.startswith("x"):
            return True
        busy = Task.objects.filter(state="RUNNING").exists() or self.chaos.depth
        known = ledgers.at_destination(self.place(destination).id)
        owned = any(key in ledger.owned_keys() or ledger.intent for ledger in known)
        return not busy and not owned

    def place(self, destination: str) -> Destination:
        return Destination(kind="fake", name=destination, address=f"fake://memory/{destination}")

    def take_note(self, destination: Destination, record: str) -> None:
        """What we write becomes ours, where the sink lets us take it over."""
        if not record.startswith("x"):
            self.theirs.pop((destination.name, record), None)

    def check_delete(self, destination: Destination, record: str) -> None:
        """Sync invariant 13."""
        live = self.sink._place(destination).records.get(record)
        known = ledgers.at_destination(destination.id)
        ours = any(record in ledger.records() for ledger in known)
        theirs = (destination.name, record) in self.theirs
        if theirs or (live is not None and live.mark is None and not ours):
            self.wrong.append(f"{record!r} of {destination.name} is deleted and was not ours")

    def act(self, what: str) -> None:
        if self.chaos.depth > 3:
            return
        actions: dict[str, Callable[[], None]] = {
            "another worker": lambda: self.work(0),
            "another worker, the last task": lambda: self.work(-1),
            "frozen": self.recover,
            "frozen, another worker": self._work_of_frozen,
            "push": lambda: self.change("main", APP, content({"k1": "9", "k7": "9"})),
            "rewind": lambda: self.rewind("main", 1),
            "remove": lambda: self.remove("feature-a"),
            "by hand": lambda: self.by_hand("production-shop", "x1", "in the middle"),
            "drift": lambda: self.by_hand("production-shop", "k1", "drifted"),
            "bundle": lambda: self.wish("prune", "off"),
        }
        actions[what]()

    def _work_of_frozen(self) -> None:
        self.recover()
        self.work(0)

    def wish(self, name: str, value: Any) -> None:
        setattr(self.wishes, name, value)
        self.rules = self.wishes.rules()


def content(values: dict[str, str]) -> str:
    return json.dumps(values)
