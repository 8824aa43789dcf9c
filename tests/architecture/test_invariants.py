"""The lists of rules and tests are what the tests say."""

from __future__ import annotations

from tests.support import invariants

_WRITE = "run: python -m tests.support.invariants"


def test_the_list_of_invariants_is_up_to_date():
    assert invariants.document() == invariants.DOCUMENT.read_text(), _WRITE


def test_the_list_of_the_syncs_invariants_is_up_to_date():
    assert invariants.sync_document() == invariants.SYNC_DOCUMENT.read_text(), _WRITE


def test_every_number_that_a_test_names_is_a_rule():
    assert set(invariants.tests_by_rule(invariants.NAMED)) <= set(invariants.RULES)


def test_every_rule_of_the_sync_has_a_test_that_names_it():
    named = invariants.tests_by_rule(invariants.NAMED_OF_SYNC)
    assert set(named) == set(invariants.SYNC_RULES)
