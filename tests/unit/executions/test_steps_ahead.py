"""Which steps come next if nothing fails: their units may be started ahead."""

from __future__ import annotations

from apps.executions.domain.plan import PlanNode, RunPlan, steps_ahead
from tests.unit.executions.test_decide import LETTERS, names, plan


def ahead(graph: RunPlan, letters: str, count: int = 2, **facts: set[int]) -> list[str]:
    statuses = [LETTERS[letter] for letter in letters]
    return names(graph, steps_ahead(graph, statuses, count=count, **facts))


def test_the_next_steps_of_a_chain_come_next() -> None:
    chain = plan(a="", b="a", c="b", d="c")

    assert ahead(chain, "rppp") == ["b", "c"]
    assert ahead(chain, "hrpp", count=1) == ["c"]
    assert ahead(chain, "qppp", count=9) == ["b", "c", "d"]


def test_a_step_whose_dependency_has_not_begun_does_not_come_next() -> None:
    both = plan(a="", b="", c="a b")

    assert ahead(both, "rpp", count=1) == ["b"]
    assert ahead(both, "rrp") == ["c"]
    assert ahead(both, "hrp") == ["c"]


def test_nothing_comes_next_once_a_step_has_failed_unless_the_run_goes_on() -> None:
    assert ahead(plan(a="", b="", c="b"), "frp") == []
    assert ahead(plan(a_="", b="", c="b a"), "frp") == ["c"]
    assert ahead(plan(a="", b="", c="b"), "crp") == []


def test_a_step_with_a_trigger_is_as_a_rule_skipped() -> None:
    assert ahead(plan(a="", clean="!a", b="a"), "rpp") == ["b"]


def test_a_step_that_was_not_selected_satisfies() -> None:
    chain = plan(a="", b="a", c="b")

    assert ahead(chain, "srp", skipped_by={0}) == ["c"]
    assert ahead(chain, "spp") == []


def test_services_and_mocks_start_when_they_may() -> None:
    graph = RunPlan(
        (
            PlanNode(id="a"),
            PlanNode(id="db", kind="service", level=1, needs=(0,)),
            PlanNode(id="check", kind="test", level=1, needs=(0,)),
            PlanNode(id="use", level=2, needs=(1,)),
        )
    )

    assert ahead(graph, "rppp") == ["check"]
    assert ahead(graph, "hrrp") == ["use"]
