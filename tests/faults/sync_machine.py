"""Random histories of a sync: a model of Git and of sinks, the product's own rows and services."""

from __future__ import annotations

from collections import Counter
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from sync_stack.core.bundle.rules import SyncMode
from sync_stack.orchestrator.models import Task
from tests.faults.sync_checks import POISON, Watched, check_settled, settle
from tests.faults.sync_world import (
    APP,
    BRANCHES,
    EXTRA,
    FILES,
    MANY,
    PRUNES,
    ROWS,
    History,
    Post,
    Wishes,
    content,
)
from tests.support.fake_sink import Layout
from tests.support.rows_in_memory import in_memory

STEPS: Final = 25
ACTIONS: Final = (
    *("kill",) * 4,
    *("sink fails", "sink times out", "git fails", "store fails"),
    *("another worker", "another worker, the last task"),
    *("frozen", "frozen, another worker", "frozen, another worker"),
    *("push", "rewind", "remove", "by hand", "drift", "bundle"),
)
PLANS: Final = st.lists(st.tuples(st.integers(1, 60), st.sampled_from(ACTIONS)), max_size=3)
VALUES: Final = st.sampled_from("0123")
NUMBERS: Final = st.integers(0, 12)
FAULTS: Final = st.sampled_from(["", "", "stop", "freeze", "flush", "back", "restart"])
KEYS: Final = {APP: ("k1", "k2", "k3", "k4"), EXTRA: ("e1", "e2", "k4"), MANY[0]: ("a1", "a2"),
               MANY[1]: ("b1", "b2", "a2")}  # fmt: skip
DESTINATIONS: Final = (
    *("production-shop", "staging-shop", "moved-production"),
    *("f-feature-a", "f-feature-b", "many-production"),
)
BY_HAND: Final = ("k1", "k2", "k3", "e1", "a1", "b1", "x1", "x2")
CHANGES: Final[tuple[tuple[str, Any], ...]] = (
    *(("prune", name) for name in PRUNES),
    *(("mode", mode) for mode in SyncMode),
    *(
        (name, wished)
        for name in ("heals", "moved", "renamed", "dry_run")
        for wished in (False, True)
    ),
    *((name, wished) for name in ("fails_missing", "literal") for wished in (False, True)),
    *((name, wished) for name in ("extra", "features", "many") for wished in (False, True)),
)


@dataclass
class Figures:
    """Of all histories so far."""

    histories: int = 0
    steps: int = 0
    points: int = 0
    broker_faults: int = 0
    tasks: int = 0
    ends: Counter[str] = field(default_factory=Counter)


FIGURES: Final = Figures()


@st.composite
def changes(draw: Any) -> tuple[str, str | None]:
    """A file, and what it becomes."""
    file = draw(st.sampled_from(FILES))
    how = draw(st.sampled_from(["keys"] * 5 + ["empty", "poison", "removed"]))
    keys = st.dictionaries(st.sampled_from(KEYS[file]), VALUES, min_size=1)
    texts = {"empty": "{}", "poison": POISON, "removed": None}
    return file, content(draw(keys)) if how == "keys" else texts[how]


class Histories(RuleBasedStateMachine):
    """One history; in the end everything answers again, and it settles."""

    history: History

    def store(self) -> AbstractContextManager[None]:
        return in_memory(ROWS, self._point)

    def _point(self, kind: str) -> None:
        self.history.chaos.point(kind)

    @initialize(
        layout=st.sampled_from([Layout.HASH, *Layout]),
        prune=st.sampled_from(sorted(PRUNES)),
        extra=st.booleans(),
    )
    def begin(self, layout: Layout, prune: str, extra: bool) -> None:
        self.installed = ExitStack()
        self.installed.enter_context(self.store())
        wishes = Wishes(prune=prune, extra=extra)
        self.history = History(Path("/model"), layout=layout, wishes=wishes)
        self.watched = Watched()
        self.installed.enter_context(self.history.chaos.installed())
        self.history.change("main", APP, content({"k1": "0", "k2": "0", "k3": "0"}))

    @rule(
        branch=st.sampled_from(("main", *BRANCHES)),
        change=changes(),
        plan=PLANS,
        told=st.booleans(),
        fault=FAULTS,
    )
    def push(
        self, branch: str, change: tuple[str, str | None], plan: Any, told: bool, fault: str
    ) -> None:
        """Mostly the webhook comes at once; else later, or never."""
        self.history.change(branch, *change)
        if told:
            self._bring(self.history.posts[-1], 1, plan)
        self.broker_fault(fault)

    @rule(branch=st.sampled_from(BRANCHES[:2]), back=NUMBERS, plan=PLANS)
    def force_push(self, branch: str, back: int, plan: Any) -> None:
        self.history.rewind(branch, back)
        self._bring(self.history.posts[-1], 1, plan)

    @rule(branch=st.sampled_from(BRANCHES[1:]), told=st.booleans())
    def delete_branch(self, branch: str, told: bool) -> None:
        before = len(self.history.posts)
        self.history.remove(branch)
        if told and len(self.history.posts) > before:
            self._bring(self.history.posts[-1], 1, ())

    @rule(number=NUMBERS, copies=st.sampled_from([1, 1, 10]), plan=PLANS, fault=FAULTS)
    def deliver(self, number: int, copies: int, plan: Any, fault: str) -> None:
        """Any delivery, also an old one, also once more."""
        posts = self.history.posts
        self._bring(posts[number % len(posts)], copies, plan)
        self.broker_fault(fault)

    def _bring(self, post: Post, copies: int, plan: Any) -> None:
        for _ in range(copies):
            self.history.bring(post, plan)
        self._look_on()

    @precondition(lambda self: self.history.waiting())
    @rule(number=NUMBERS, plan=PLANS)
    def work(self, number: int, plan: Any) -> None:
        self.history.work(number, plan)
        self._look_on()

    @precondition(lambda self: self.history.waiting())
    @rule(number=NUMBERS, kind=st.sampled_from(["sink fails", "git fails", "sink times out"]))
    def work_while_something_is_away(self, number: int, kind: str) -> None:
        """Until the task is given up, or is done without it."""
        waiting = self.history.waiting()
        name = waiting[number % len(waiting)].id
        self.history.chaos.away = {kind}
        for _ in range(8):
            left = [task.id for task in self.history.waiting()]
            if name in left:
                self.history.work(left.index(name))
        self.history.chaos.away = set()
        self._look_on()

    @rule(plan=PLANS)
    def sweep(self, plan: Any) -> None:
        self.history.recover()
        self.history.look(plan)
        self._look_on()

    @rule()
    def watch(self) -> None:
        self.history.watch()

    def broker_fault(self, what: str) -> None:
        """Lasts until `back`, or until the history settles."""
        FIGURES.broker_faults += what not in ("", "back")
        self.history.broker.fault(what)

    @rule()
    def work_off_messages(self) -> None:
        self.history.work_off_messages()
        self._look_on()

    @rule(
        destination=st.sampled_from(DESTINATIONS),
        key=st.sampled_from(BY_HAND),
        value=st.one_of(st.none(), st.sampled_from(["0", "1", "by hand"])),
    )
    def write_by_hand(self, destination: str, key: str, value: str | None) -> None:
        self.history.by_hand(destination, key, value)

    @rule(change=st.sampled_from(CHANGES))
    def change_bundle(self, change: tuple[str, Any]) -> None:
        self.history.wish(*change)

    def _look_on(self) -> None:
        FIGURES.steps += 1
        self.watched.check(self.history)

    def teardown(self) -> None:
        """Also after a failure, whose history need not settle."""
        if not hasattr(self, "history"):
            return
        try:
            settle(self.history)
            self.watched.check(self.history)
            check_settled(self.history)
        finally:
            self._count()
            self.installed.close()

    def _count(self) -> None:
        FIGURES.histories += 1
        FIGURES.points += self.history.chaos.points
        ends = list(Task.objects.values_list("state", "message"))
        FIGURES.tasks += len(ends)
        FIGURES.ends.update(f"{state} {message}" for state, message in ends)


class StoredHistories(Histories):
    """On the store that Django has."""

    def store(self) -> AbstractContextManager[None]:
        for model in ROWS:
            model.objects.all().delete()
        return nullcontext()


def run(
    histories: int, number: int, machine: type[Histories] = Histories, *, shrink: bool = False
) -> None:
    """Raises what a history has found, the shortest one."""
    chosen = settings(
        max_examples=histories,
        stateful_step_count=STEPS,
        deadline=None,
        database=None,
        phases=[Phase.generate, *([Phase.shrink] if shrink else [])],
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
        print_blob=False,
    )
    run_state_machine_as_test(seed(number)(machine), settings=chosen)
