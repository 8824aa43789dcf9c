"""What is void when a service starts anew: small DAGs, then whole runs of any DAG."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.executions.domain.plan import PlanNode, RunPlan, decide, may_begin, replacement, upstream
from apps.executions.domain.retry_rules import MAX_REQUEUES
from apps.executions.domain.states import TERMINAL_STEP, StepEvent, StepStatus, advance_step
from tests.unit.executions.test_decide import LETTERS, names, plan

SHOP = {"store": "", "migrate": "store", "api": "migrate", "test": "api", "rollback": "!migrate"}


@pytest.mark.parametrize(
    ("graph", "letters", "services", "reset"),
    [
        (SHOP, "hhrpp", "store", "migrate api"),
        (SHOP, "hhrps", "store", "migrate api rollback"),  # what was skipped is decided again
        (SHOP, "hrppp", "store", "migrate"),
        (SHOP, "hqppp", "store", ""),  # nobody claimed it yet: it did not run against anything
        (SHOP, "hhqps", "store", "migrate api rollback"),  # behind a step that must run before it
        (SHOP, "hhhrs", "api", "test"),
        (SHOP, "hhhhs", "test", ""),
        ({"a": "", "b": "", "c": "b"}, "hhh", "a", ""),  # of another part of the run
        ({"a": "", "b_": "a", "c": "b"}, "hfh", "a", "c"),  # through one that was allowed to fail
        ({"a": "", "b": "a"}, "hc", "a", ""),
        ({"a": "", "b": "a", "c": "b"}, "hhh", "a b", "c"),  # both start anew already
    ],
)
def test_what_ran_against_a_service_is_reset_with_it(graph, letters, services, reset):
    graph = plan(**graph)
    places = [at for at, node in enumerate(graph.nodes) if node.id in services.split()]
    statuses = [LETTERS[letter] for letter in letters]
    assert names(graph, replacement(graph, statuses, places).reset) == reset.split()


def test_what_was_not_selected_stays_skipped():
    graph = plan(**SHOP)
    statuses = [LETTERS[letter] for letter in "hsrps"]
    found = replacement(graph, statuses, [0], not_selected={1})
    assert names(graph, found.reset) == ["api", "rollback"]


def test_what_must_not_run_twice_is_told_apart():
    """Invariant 9."""
    nodes = (
        PlanNode(id="db", kind="service", may_run_again=True),
        PlanNode(id="seed", level=1, needs=(0,)),
        PlanNode(id="check", level=2, needs=(1,), may_run_again=True),
        PlanNode(id="later", level=2, needs=(1,)),
    )
    found = replacement(RunPlan(nodes), [LETTERS[letter] for letter in "hhrp"], [0])
    assert (found.started, found.stuck) == ((1, 2), (1,))


def test_the_way_to_the_root_names_the_nearest_first():
    graph = plan(a="", b="a", c="a", d="b !c", other="")
    assert names(graph, upstream(graph, 3)) == ["c", "b", "a"]


@dataclass
class Simulation:
    """A run of a plan in memory; each step remembers which start of each service it ran against."""

    plan: RunPlan
    chance: random.Random
    statuses: list[StepStatus] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    world: list[dict[int, int]] = field(default_factory=list)
    stuck: bool = False

    def __post_init__(self) -> None:
        count = len(self.plan.nodes)
        self.statuses = [StepStatus.PENDING] * count
        self.starts, self.world = [0] * count, [{} for _ in range(count)]

    def step(self, at: int, event: StepEvent) -> None:
        self.statuses[at] = advance_step(self.statuses[at], event)

    def follow(self) -> bool:
        """Do what the plan decides; whether the run is over."""
        decision = decide(self.plan, self.statuses, max_parallel=3)
        for at in decision.skip:
            self.step(at, StepEvent.SKIPPED)
        for at in decision.cancel:
            self.step(at, StepEvent.CANCELED)
        for at in decision.start:
            self.step(at, StepEvent.READY)
        return decision.verdict is not None

    def move(self) -> None:
        """Something that may happen next to one step."""
        at = self.chance.randrange(len(self.statuses))
        match self.statuses[at]:
            case StepStatus.QUEUED if may_begin(self.plan, self.statuses, at, set()):
                self.step(at, StepEvent.CLAIMED)
                self.starts[at] += 1
                self.world[at] = {up: self.starts[up] for up in self.services_below(at)}
            case StepStatus.RUNNING:
                ended = self.chance.random() < 0.9
                self.step(at, StepEvent.ENDED_WELL if ended else StepEvent.FAILED)
            case StepStatus.HEALTHY if self.is_service(at) and self.starts[at] <= MAX_REQUEUES:
                self.replace(at)

    def replace(self, at: int) -> None:
        self.step(at, StepEvent.REQUEUED)
        found = replacement(self.plan, self.statuses, [at])
        self.stuck = bool(found.stuck)
        for other in () if found.stuck else found.reset:
            self.step(other, StepEvent.RESET)

    def is_service(self, at: int) -> bool:
        return self.plan.nodes[at].kind == "service"

    def services_below(self, at: int) -> list[int]:
        return [up for up in upstream(self.plan, at) if self.is_service(up)]

    def check(self) -> None:
        """Whatever goes on or counts ran against the services that are there now."""
        for at, status in enumerate(self.statuses):
            if status in (StepStatus.RUNNING, StepStatus.HEALTHY):
                now = {up: self.starts[up] for up in self.services_below(at)}
                assert self.world[at] == now, self.plan.nodes[at].id
            if not self.plan.nodes[at].may_run_again:
                assert self.starts[at] <= 1, self.plan.nodes[at].id


def any_plan(chance: random.Random) -> RunPlan:
    nodes: list[PlanNode] = []
    for at in range(chance.randint(1, 7)):
        needs = set(chance.sample(range(at), chance.randint(0, min(at, 3))))
        triggers = set(chance.sample(range(at), chance.randint(0, min(at, 1)))) - needs
        kind = chance.choice(["service", "service", "task"])
        nodes.append(
            PlanNode(
                id=f"n{at}",
                kind=kind,
                level=max((nodes[edge].level + 1 for edge in needs | triggers), default=0),
                needs=tuple(sorted(needs)),
                triggers=tuple(sorted(triggers)),
                continue_on_failure=chance.random() < 0.5,
                may_run_again=kind == "service" or chance.random() < 0.5,
            )
        )
    return RunPlan(tuple(nodes))


@settings(max_examples=8 * settings().max_examples)
@given(st.randoms(use_true_random=True))
def test_any_run_ends_in_the_world_that_it_began_in(chance):
    """Invariants 3, 5, 9: nothing counts that ran against a service which is no longer there."""
    run = Simulation(any_plan(chance), chance)
    for _ in range(3_000):
        if run.follow() or run.stuck:
            break
        run.move()
        if not run.stuck:
            run.check()
    assert run.stuck or set(run.statuses) <= TERMINAL_STEP, run.statuses
