"""The list of rules and tests is what the tests say."""

from __future__ import annotations

from tests.support import invariants


def test_the_list_of_invariants_is_up_to_date():
    assert invariants.document() == invariants.DOCUMENT.read_text(), (
        "run: python -m tests.support.invariants"
    )


def test_every_number_that_a_test_names_is_a_rule():
    assert set(invariants.tests_by_rule()) <= set(invariants.RULES)
