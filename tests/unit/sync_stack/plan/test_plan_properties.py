"""What holds of every plan, whatever Git, the ledger and the sink hold."""

from __future__ import annotations

import contextlib
from fnmatch import fnmatchcase

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sync_stack.core.bundle.rules import SyncMode
from sync_stack.core.sink import SinkError
from tests.support.fake_sink import FakeSink, Layout
from tests.support.syncing import Unit, prune

KEYS = [f"{group}.{name}" for group in ("a", "b", "keep") for name in "xyz"]
VALUES = ["1", "1.10", "0123", "no", "", "é"]


def settings_of(number: int) -> dict[str, str]:
    """Read a digit in base 12 for each key; those below 6 leave it out."""
    found = {}
    for key in KEYS:
        number, digit = divmod(number, 12)
        if digit >= 6:
            found[key] = VALUES[digit - 6]
    return found


# Two draws take less time than one for each key. Of more than 24 bits, Hypothesis prefers small
# numbers: the last keys, the protected ones among them, would hardly ever be there.
SETTINGS = st.tuples(st.integers(0, 12**5 - 1), st.integers(0, 12 ** (len(KEYS) - 5) - 1)).map(
    lambda pair: settings_of(pair[0] + 12**5 * pair[1])
)
MODES = st.sampled_from(list(SyncMode))
PROTECTION = ("keep.*",)
PER_KEY = [Layout.HASH, Layout.KEY_VALUE]
WHOLE = [Layout.DOCUMENT, Layout.FILE]

several = pytest.mark.parametrize("layout", PER_KEY)
whole = pytest.mark.parametrize("layout", WHOLE)


def live(unit: Unit[FakeSink]) -> dict[str, str]:
    """Everything in the destination, whoever wrote it."""
    place = unit.sink.places[unit.destination.id]
    return {key: text for record in place.records.values() for key, text in record.values.items()}


def is_protected(key: str) -> bool:
    return fnmatchcase(key, PROTECTION[0])


@several
@given(foreign=SETTINGS, first=SETTINGS, second=SETTINGS, drift=SETTINGS, mode=MODES)
def test_a_sync_gives_desired_and_what_is_foreign_or_protected(
    layout, foreign, first, second, drift, mode
):
    """Sync invariant 13."""
    unit = Unit(FakeSink(layout))
    for key, text in foreign.items():
        unit.sink.put_by_hand(unit.destination, key, {key: text})
    unit.sync(first, mode=mode, prune=prune(protection=PROTECTION))
    for key in drift.keys() & first.keys():
        unit.sink.put_by_hand(unit.destination, key, {key: drift[key]})
    before = live(unit)

    unit.sync(second, mode=mode, prune=prune(protection=PROTECTION))

    lost_mark = drift.keys() if layout is Layout.KEY_VALUE else set()
    stays = {
        key: text
        for key, text in before.items()
        if key not in first or is_protected(key) or key in lost_mark
    }
    assert live(unit) == stays | second


@several
@given(foreign=SETTINGS, first=SETTINGS, second=SETTINGS, mode=MODES)
def test_without_prune_nothing_is_ever_deleted(layout, foreign, first, second, mode):
    """Sync invariant 13."""
    mode = SyncMode.AUTO if mode is SyncMode.LIVE_STATE else mode
    unit = Unit(FakeSink(layout))
    for key, text in foreign.items():
        unit.sink.put_by_hand(unit.destination, key, {key: text})

    unit.sync(first, mode=mode)
    unit.sync(second, mode=mode)

    assert live(unit) == foreign | first | second


@whole
@given(first=SETTINGS, second=SETTINGS.filter(bool), drift=SETTINGS, mode=MODES, on=st.booleans())
def test_a_whole_record_holds_what_is_desired_and_what_is_protected(
    layout, first, second, drift, mode, on
):
    unit = Unit(FakeSink(layout))
    unit.sync(first, mode=mode, prune=prune(protection=PROTECTION, enabled=on))
    if drift:
        record = next(iter(unit.desired(second).values())).record
        unit.sink.put_by_hand(unit.destination, record, drift)
    before = live(unit)

    unit.sync(second, mode=mode, prune=prune(protection=PROTECTION, enabled=on), adopt=True)

    assert live(unit) == {k: v for k, v in before.items() if is_protected(k)} | second


@pytest.mark.parametrize("layout", list(Layout))
@given(
    first=SETTINGS,
    second=SETTINGS,
    third_party=SETTINGS,
    broken_after=st.integers(0, 6),
    mode=MODES,
)
def test_a_restore_gives_the_previous_state_and_keeps_what_others_changed(
    layout, first, second, third_party, broken_after, mode
):
    """Sync invariant 16."""
    sink = FakeSink(layout)
    unit = Unit(sink)
    unit.sync(first, mode=mode, prune=prune())
    before = live(unit)
    plan = unit.plan(second, mode=mode, prune=prune())
    unit.generation += 1
    sink.break_after = broken_after
    with contextlib.suppress(SinkError):
        unit.carry_out(plan)
    sink.break_after = None
    changed = {key: f"theirs {text}" for key, text in third_party.items()}
    _by_hand(unit, changed)

    unit.restore(plan.journal)
    unit.restore(plan.journal)

    assert live(unit) == before | changed


def _by_hand(unit: Unit[FakeSink], changed: dict[str, str]) -> None:
    for key, text in changed.items():
        record = unit.desired({key: text})[key].record
        place = unit.sink.places[unit.destination.id]
        found = place.records.get(record)
        unit.sink.put_by_hand(
            unit.destination, record, (dict(found.values) if found else {}) | {key: text}
        )


@pytest.mark.parametrize("layout", list(Layout))
@given(first=SETTINGS.filter(bool), second=SETTINGS, broken_after=st.integers(0, 6), mode=MODES)
def test_after_a_crash_between_operations_the_next_attempt_reaches_desired(
    layout, first, second, broken_after, mode
):
    """Sync invariant 17: with the intent in the ledger every written key is known."""
    sink = FakeSink(layout)
    unit = Unit(sink)
    unit.sync(first, mode=mode, prune=prune())
    sink.break_after = broken_after
    try:
        unit.sync(second, mode=mode, prune=prune())
    except SinkError:
        sink.break_after = None
        unit.sync(second, mode=mode, prune=prune())

    assert live(unit) == second


@pytest.mark.parametrize("layout", list(Layout))
@given(first=SETTINGS, second=SETTINGS, drift=SETTINGS, mode=MODES)
def test_a_heal_repairs_what_differs_and_never_prunes(layout, first, second, drift, mode):
    """Sync invariant 41."""
    unit = Unit(FakeSink(layout))
    unit.sync(first, mode=mode, prune=prune(enabled=False))
    unit.sync(second, mode=mode, prune=prune(enabled=False))
    baseline = live(unit)
    for key in drift.keys() & baseline.keys():
        _by_hand(unit, {key: drift[key]})

    plan = unit.plan(second, mode=mode, prune=prune(), heal=True)
    unit.generation += 1
    unit.carry_out(plan)

    assert {key: live(unit)[key] for key in second} == second
    assert live(unit).keys() == baseline.keys()
    assert not plan.pruned
    if not drift.keys() & baseline.keys():
        assert not plan


@pytest.mark.parametrize("layout", list(Layout))
@given(first=SETTINGS, second=SETTINGS, mode=MODES)
def test_a_prune_dry_run_deletes_nothing_and_reports_what_would_go(layout, first, second, mode):
    """Sync invariant 22."""
    unit = Unit(FakeSink(layout))
    unit.sync(first, mode=mode, prune=prune())

    plan = unit.sync(second, mode=mode, prune=prune(dry_run=True))

    assert live(unit) == first | second
    assert plan.would_prune == first.keys() - second.keys()
    assert not plan.pruned


@pytest.mark.parametrize("layout", list(Layout))
@given(values=SETTINGS, mode=MODES)
def test_a_second_sync_of_the_same_changes_nothing(layout, values, mode):
    unit = Unit(FakeSink(layout))
    unit.sync(values, mode=mode, prune=prune())

    plan = unit.sync(values, mode=mode, prune=prune())

    assert not plan.written
    assert plan.unchanged == values.keys()
    assert not plan.journal
