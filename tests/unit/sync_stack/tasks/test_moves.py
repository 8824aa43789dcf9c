"""Which deliveries of a ref are about a commit that it has left."""

from __future__ import annotations

from sync_stack.core.tasks import RefUpdate, outdated_tasks

A_TO_B, B_TO_C, C_TO_D = (
    RefUpdate("1", "a", "b"),
    RefUpdate("2", "b", "c"),
    RefUpdate("3", "c", "d"),
)


def again(move: RefUpdate, task_id: str) -> RefUpdate:
    return move._replace(task_id=task_id)


def test_a_later_delivery_that_moved_on_is_enough():
    assert outdated_tasks([A_TO_B], [A_TO_B, B_TO_C], {"x"}) == {"1"}


def test_deliveries_in_any_order_lead_to_what_the_host_shows():
    late = again(A_TO_B, "9")
    assert outdated_tasks([late], [C_TO_D, late, B_TO_C], {"d"}) == {"9"}
    assert outdated_tasks([late], [C_TO_D, late, B_TO_C], {"x"}) == frozenset()
    assert outdated_tasks([late], [C_TO_D, late], {"d"}) == frozenset(), "a link is missing"


def test_the_newest_is_never_overtaken():
    known = [A_TO_B, B_TO_C, C_TO_D]
    assert outdated_tasks([C_TO_D], known, {"a"}) == frozenset()
    assert outdated_tasks([C_TO_D], known, {"c"}) == frozenset()


def test_a_rewind_waits_for_the_host():
    """Sync invariant 7: it shows what the ref was rewound from."""
    rewind = RefUpdate("9", "c", "a")
    assert outdated_tasks([rewind], [A_TO_B, B_TO_C, rewind], {"c"}) == frozenset()
    assert outdated_tasks([rewind], [A_TO_B, B_TO_C, rewind], {"b"}) == frozenset()


def test_what_came_before_a_rewind_cannot_be_told_from_what_came_after():
    first, rewind = again(A_TO_B, "9"), RefUpdate("3", "c", "b")
    assert outdated_tasks([first], [first, B_TO_C, rewind], {"c"}) == frozenset()
