"""Comparison, backoff, flapping: tables on values."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from sync_stack.core.drift import (
    Comparison,
    Difference,
    HealState,
    TargetStatus,
    after_clean,
    after_drift,
    as_sane,
    begin_heal,
    change_documents,
    compare,
    drift_status,
    end_heal,
    is_unhealed,
    may_heal,
)
from sync_stack.core.ledger import Ledger, LedgerKey, RetainedKey, TargetState, digest
from sync_stack.core.sink import Capabilities, Live, LiveRecord, Owner, TargetMarker

KEY = b"digest key of the tests"
NOW = datetime(2026, 11, 21, tzinfo=UTC)
OWNER = Owner(rule="shop", repo="acme/shop", env="production")
EACH = Capabilities(foreign_listing=True)
WHOLE = Capabilities(whole_records=True, marks_records=True)


def later(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def ledger(records: dict[str, dict[str, str]], **more) -> Ledger:
    keys = {
        key: LedgerKey(record=name, digest=digest(KEY, text), secret=key == "password")
        for name, values in records.items()
        for key, text in values.items()
    }
    state = TargetState(
        commit="c", ref="r", rule_digest="d", generation=1, at="", task_id="t", keys=keys
    )
    fields: dict[str, Any] = {"unit_id": "u", "rule_id": "shop", "tenant": "t", "platform": "p"}
    fields |= {"datasource": "s", "kind": "fake", "repo": "acme/shop", "env": "e"}
    fields |= {"destination": "d", "destination_id": "i", "digest_key_id": "k"}
    return Ledger(**fields, applied=state, **more)


def live(records: dict[str, dict[str, str]], **more) -> Live:
    found = {name: LiveRecord(values=values) for name, values in records.items()}
    return Live(records=found, **more)


def each(values: dict[str, str]) -> dict[str, dict[str, str]]:
    return {key: {key: text} for key, text in values.items()}


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ({"a": "1", "b": "2"}, {}),
        ({"a": "1"}, {"b": "removed"}),
        ({"a": "1", "b": "3"}, {"b": "changed"}),
        ({"a": "1.0", "b": ""}, {"a": "changed", "b": "changed"}),
        ({}, {"a": "removed", "b": "removed"}),
    ],
)
def test_keys_of_the_baseline_are_compared_by_digest(found, expected):
    baseline = ledger(each({"a": "1", "b": "2"}))
    made = compare(baseline, live(each(found)), EACH, OWNER, KEY)
    assert {change.key: change.kind.value for change in made.changes} == expected
    assert bool(made) is bool(expected)


def test_what_else_is_in_the_destination_is_counted_and_no_drift():
    other = live(each({"a": "1"}), foreign=frozenset({"x"}), foreign_count=3)
    made = compare(ledger(each({"a": "1"})), other, EACH, OWNER, KEY)
    assert not made
    assert made.counts == {"removed": 0, "changed": 0, "added": 0, "foreign": 4}


def test_a_key_more_in_a_whole_record_of_ours_is_drift_unless_it_was_carried_over():
    kept = RetainedKey(record="doc", digest="", since="")
    baseline = ledger({"doc": {"a": "1"}}, retained={"kept": kept})
    made = compare(baseline, live({"doc": {"a": "1", "x": "2", "kept": "3"}}), WHOLE, OWNER, KEY)
    assert made.keys(Difference.ADDED) == ("x",)
    assert made.counts["added"] == 1


def test_a_record_with_our_marker_that_the_ledger_does_not_know_is_the_next_syncs():
    mark = TargetMarker(rule="shop", repo="acme/shop", env="production", generation=1)
    found = Live(
        records={
            "doc": LiveRecord(values={"a": "1"}),
            "more": LiveRecord(values={"z": "1"}, mark=mark),
        }
    )
    made = compare(ledger({"doc": {"a": "1"}}), found, WHOLE, OWNER, KEY)
    assert not made
    assert made.foreign == ("more",)


def test_where_records_expire_an_absent_one_is_no_drift_but_a_changed_one_is():
    sink = Capabilities(expires=True)
    made = compare(ledger(each({"a": "1", "b": "2"})), live(each({"b": "3"})), sink, OWNER, KEY)
    assert [(change.key, change.kind) for change in made.changes] == [("b", Difference.CHANGED)]


@pytest.mark.parametrize("found", [{"a": "1"}, {"a": "1", "b": "3"}])
def test_the_keys_of_a_file_that_git_no_longer_has_are_no_drift(found):
    """Sync invariant 15: no heal could restore them."""
    keys = {
        name: LedgerKey(record=name, digest=digest(KEY, text), file=file)
        for name, text, file in (("a", "1", "here.yaml"), ("b", "2", "gone.yaml"))
    }
    baseline = ledger({})
    assert baseline.applied is not None
    applied = replace(baseline.applied, keys=keys, files=("here.yaml",))
    assert not compare(replace(baseline, applied=applied), live(each(found)), EACH, OWNER, KEY)


def test_a_unit_without_baseline_differs_in_nothing():
    never = replace(ledger({}), applied=None)
    assert compare(never, live(each({"a": "1"})), EACH, OWNER, KEY) == Comparison()


def test_records_of_drift_hold_digests_and_no_value():
    """Sync invariant 24."""
    baseline = ledger(each({"password": "hunter22", "b": "2"}))
    made = compare(baseline, live(each({"password": "stolen99"})), EACH, OWNER, KEY)
    listed = change_documents(made, 200)
    assert [entry["key"] for entry in listed] == ["b", "password"]
    assert listed[1]["secret"] is True
    assert "stolen99" not in str(listed)
    assert "hunter22" not in str(listed)
    assert len(change_documents(made, 1)) == 1


def test_pauses_double_up_to_five_minutes_and_only_three_clean_polls_reset_them():
    """Sync invariant 42."""
    state, pauses = HealState(), []
    for _ in range(9):
        state = end_heal(begin_heal(state, NOW, 60), NOW, 60, healed=True)
        state = after_clean(after_clean(state, NOW), NOW)
        state = after_drift(state, NOW, 60, opened=False)
        assert state.next_heal_at is not None
        pauses.append((state.next_heal_at - NOW).total_seconds())
    assert pauses == [5, 10, 20, 40, 80, 160, 300, 300, 300]

    for _ in range(3):
        state = after_clean(state, NOW)
    assert (state.heals, state.next_heal_at) == (0, None)
    assert may_heal(state, NOW)


def test_the_pause_begins_when_the_attempt_ends():
    begun = begin_heal(HealState(), NOW, 60)
    assert not may_heal(begun, later(4))
    ended = end_heal(begun, later(300), 60, healed=False)
    assert not may_heal(ended, later(304))
    assert may_heal(ended, later(305))


def test_from_the_fifth_failure_in_a_row_attempts_go_on_at_the_longest_pause():
    state = HealState()
    for number in range(1, 6):
        state = end_heal(begin_heal(state, NOW, 60), NOW, 60, healed=False)
        assert is_unhealed(state) is (number == 5)
    assert state.next_heal_at == later(300)
    assert not is_unhealed(end_heal(state, NOW, 60, healed=True))


@pytest.mark.parametrize(
    ("minutes", "flapping"),
    [([0, 1, 2, 3], False), ([0, 1, 2, 3, 29], True), ([0, 1, 2, 3, 31], False)],
)
def test_five_episodes_within_half_an_hour_flap(minutes, flapping):
    state = HealState()
    for minute in minutes:
        state = after_drift(state, later(60 * minute), 60, opened=True)
    assert state.flapping is flapping


def test_polls_of_one_episode_do_not_flap():
    state = HealState()
    for second in range(20):
        state = after_drift(state, later(second), 60, opened=second == 0)
    assert not state.flapping


@pytest.mark.parametrize(("interval", "pause"), [(10, 300), (60, 600)])
def test_a_flapping_unit_is_healed_seldom_until_ten_clean_polls(interval, pause):
    state = HealState(flapping=True, episodes=(NOW,) * 5)
    state = end_heal(begin_heal(state, NOW, interval), NOW, interval, healed=True)
    assert state.next_heal_at == later(pause)
    for number in range(1, 11):
        state = after_clean(state, NOW)
        assert state.flapping is (number < 10)
    assert not after_drift(state, NOW, 60, opened=True).flapping


def test_the_long_pause_counts_from_the_heal_before_flapping_was_noticed():
    state = HealState(episodes=(NOW,) * 4)
    state = end_heal(begin_heal(state, NOW, 60), NOW, 60, healed=True)
    noticed = after_drift(state, later(60), 60, opened=True)
    assert noticed.flapping
    assert noticed.next_heal_at == later(600)


def test_a_pause_that_another_machines_clock_made_is_bounded():
    far = HealState(next_heal_at=later(10**6))
    assert as_sane(far, NOW, 60).next_heal_at == later(600)
    assert as_sane(HealState(), NOW, 60) == HealState()


@pytest.mark.parametrize(
    ("flapping", "healing", "inconsistent", "status"),
    [
        (False, False, False, TargetStatus.DRIFTED),
        (False, True, False, TargetStatus.HEALING),
        (True, True, False, TargetStatus.FLAPPING),
        (True, True, True, TargetStatus.INCONSISTENT),
    ],
)
def test_the_worst_word_is_shown(flapping, healing, inconsistent, status):
    state = HealState(flapping=flapping)
    assert drift_status(state, healing=healing, inconsistent=inconsistent) is status
