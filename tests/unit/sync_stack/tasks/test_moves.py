"""Which deliveries of a ref are about a commit that it has left."""

from __future__ import annotations

from sync_stack.core.moves import Move, overtaken

A_TO_B, B_TO_C, C_TO_D = Move("1", "a", "b"), Move("2", "b", "c"), Move("3", "c", "d")


def again(move: Move, task_id: str) -> Move:
    return move._replace(task_id=task_id)


def test_a_later_delivery_that_moved_on_is_enough():
    assert overtaken([A_TO_B], [A_TO_B, B_TO_C], {"x"}) == {"1"}


def test_deliveries_in_any_order_lead_to_what_the_host_shows():
    late = again(A_TO_B, "9")
    assert overtaken([late], [C_TO_D, late, B_TO_C], {"d"}) == {"9"}
    assert overtaken([late], [C_TO_D, late, B_TO_C], {"x"}) == frozenset()
    assert overtaken([late], [C_TO_D, late], {"d"}) == frozenset(), "a link is missing"


def test_the_newest_is_never_overtaken():
    known = [A_TO_B, B_TO_C, C_TO_D]
    assert overtaken([C_TO_D], known, {"a"}) == frozenset()
    assert overtaken([C_TO_D], known, {"c"}) == frozenset()


def test_a_rewind_waits_for_the_host():
    """Sync invariant 7: it shows what the ref was rewound from."""
    rewind = Move("9", "c", "a")
    assert overtaken([rewind], [A_TO_B, B_TO_C, rewind], {"c"}) == frozenset()
    assert overtaken([rewind], [A_TO_B, B_TO_C, rewind], {"b"}) == frozenset()


def test_what_came_before_a_rewind_cannot_be_told_from_what_came_after():
    first, rewind = again(A_TO_B, "9"), Move("3", "c", "b")
    assert overtaken([first], [first, B_TO_C, rewind], {"c"}) == frozenset()
