"""What every sink promises, in every layout (reference: sync-stack 5)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from sync_stack.core.bundle.datasources import datasource_kinds
from sync_stack.core.bundle.rules import SyncMode
from sync_stack.core.drift import compare
from sync_stack.core.ownership import PlanRefused
from sync_stack.core.sink import Delete, Put, Sink, SinkConflict, SinkError
from tests.contracts.sink.worlds import WORLDS, World
from tests.support.syncing import DIGEST_KEY, Unit, prune

SPELLINGS = {
    "a.float": "1.10",
    "a.octal": "0123",
    "a.no": "no",
    "a.exponent": "1e3",
    "b.long": "12345678901234567890",
    "b.empty": "",
    "b.true": "true",
    "b.text": "zwei\nZeilen: é ☃ \"'\\ $x #y",
    "b.blanks": "  x  ",
    "list.0": "first",
    "list.1": "second",
}
ABC = {"a": "1", "b": "2", "c": "3"}


@pytest.fixture(params=sorted(WORLDS))
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    with WORLDS[request.param](tmp_path) as made:
        yield made
        made.sink.close()


def keys(unit: Unit[Sink], values: dict[str, str]) -> dict[str, str]:
    """The keys in the form that the sink takes."""
    if unit.sink.capabilities.key_formats[0] == "flat":
        return {key.replace(".", "_"): text for key, text in values.items()}
    return values


def test_every_kind_of_datasource_has_a_world():
    assert {name.partition("-")[0] for name in WORLDS} >= set(datasource_kinds)


def test_values_read_back_with_their_spelling(world: World):
    """Sync invariant 21."""
    unit = world.unit()
    wanted = keys(unit, SPELLINGS)

    plan = unit.sync(wanted)

    assert unit.read().values == wanted
    assert plan.written == wanted.keys()


def test_a_second_sync_finds_nothing_to_do(world: World):
    unit = world.unit()
    unit.sync(ABC)

    plan = unit.sync(ABC, mode=SyncMode.GIT_SMART_REPAIR)

    assert not plan
    assert plan.unchanged == ABC.keys()


def test_changed_added_and_removed_keys_arrive(world: World):
    unit = world.unit()
    unit.sync(ABC, prune=prune())

    unit.sync({"a": "1", "b": "two", "d": "4"}, prune=prune())

    assert unit.read().values == {"a": "1", "b": "two", "d": "4"}


def test_everything_can_be_removed(world: World):
    unit = world.unit()
    unit.sync(ABC, prune=prune())

    unit.sync({}, prune=prune())

    assert unit.read().records == {}


def test_several_files_share_a_destination(world: World):
    """Sync invariant 15."""
    unit = world.unit()
    first = unit.desired({"a": "1", "b": "2"}, "config/app.yaml")
    second = unit.desired({"c": "3"}, "other.env")
    unit.sync_keys(first | second, prune=prune())

    del first["a"]
    unit.sync_keys(first | second, prune=prune())

    assert unit.read().values == {"b": "2", "c": "3"}


def test_keys_of_others_are_listed_and_never_deleted(world: World):
    """Sync invariant 13."""
    unit = world.unit()
    sink = unit.sink.capabilities
    if sink.whole_records:
        pytest.skip("a record of many keys is one owner's")
    if not sink.foreign_listing:
        pytest.skip("this layout cannot list what others keep there")
    world.by_hand(unit.desired({"theirs": "x"})["theirs"].record, {"theirs": "x"})

    unit.sync(ABC, prune=prune())
    listed = unit.read().foreign
    unit.sync({}, prune=prune(), mode=SyncMode.LIVE_STATE)

    record = unit.desired({"theirs": "x"})["theirs"].record
    found = unit.sink.read(unit.destination, unit.owner, [record])
    assert found.values == {"theirs": "x"}
    assert len(listed) == 1


def test_drift_is_seen_and_repaired(world: World):
    unit = world.unit()
    unit.sync(ABC)
    record = unit.desired(ABC)["a"].record
    world.by_hand(record, {"a": "drifted"})

    plan = unit.plan(ABC, heal=True)
    unit.sync(ABC, heal=True)

    assert "a" in plan.written
    assert unit.read().values == ABC


def test_another_type_of_thing_in_the_place_of_a_record_is_drift_and_is_repaired(world: World):
    unit = world.unit()
    if world.other_type is None:
        pytest.skip("this store has one type of thing only")
    unit.sync(ABC)
    world.other_type(unit.desired(ABC)["a"].record)

    drifted = differences(unit)
    unit.sync(ABC, heal=True)

    assert drifted["a"] == "changed"
    assert unit.read().values == ABC
    assert differences(unit) == {}


def test_another_type_of_thing_that_was_there_before_us_is_left_as_it_is(world: World):
    """Sync invariants 13 and 23."""
    unit = world.unit()
    if world.other_type is None:
        pytest.skip("this store has one type of thing only")
    world.other_type(unit.desired(ABC)["a"].record)
    before = world.dump()

    for adopt in (False, True):
        with pytest.raises(PlanRefused) as refused:
            unit.sync(ABC, adopt=adopt)
        assert refused.value.code == "unowned_destination"

    assert world.dump() == before


def test_another_type_of_thing_that_appears_between_read_and_write_stays(world: World):
    """Sync invariant 13."""
    unit = world.unit()
    if world.other_type is None:
        pytest.skip("this store has one type of thing only")
    unit.sync(ABC)
    plan = unit.plan({"a": "9", "b": "2", "c": "3"})
    unit.generation += 1
    world.other_type(unit.desired(ABC)["a"].record)
    before = world.dump()

    with pytest.raises(SinkConflict):
        unit.carry_out(plan)
    unit.restore(plan.journal)

    assert world.dump() == before


def differences(unit: Unit[Sink]) -> dict[str, str]:
    """Key → kind, of what the watcher would see."""
    assert unit.ledger
    found = compare(unit.ledger, unit.read(), unit.sink.capabilities, unit.owner, DIGEST_KEY)
    return {change.key: change.kind.value for change in found.changes}


def test_the_marker_says_whose_a_record_is(world: World):
    unit = world.unit()
    if not unit.sink.capabilities.marks_records:
        pytest.skip("no marker on each record")
    unit.sync(ABC)

    found = unit.sink.read(unit.destination, unit.owner, [])

    assert found.values == ABC
    for record in found.records.values():
        assert record.mark == replace(unit.mark(), updated_at=record.mark.updated_at)  # type: ignore[union-attr]


def test_an_older_generation_is_refused_and_changes_nothing(world: World):
    """Sync invariants 7 and 10."""
    unit = world.unit()
    if not unit.sink.capabilities.fencing:
        pytest.skip("the sink cannot compare")
    unit.generation = 4
    unit.sync(ABC)
    before = world.dump()
    live = unit.read()
    record = unit.desired(ABC)["a"].record
    found = live.records[record]

    put = Put(record=record, values=dict(found.values) | {"a": "9"}, version=found.version)
    gone = Delete(record=record, key="a", version=found.version)

    with pytest.raises(SinkError) as written:
        unit.sink.write(unit.destination, [put], unit.mark(4))
    with contextlib.suppress(SinkError):  # or it finds nothing that old
        unit.sink.delete(unit.destination, [gone], unit.owner, 4)

    assert written.value.code == "stale_generation"
    assert world.dump() == before


def test_a_fence_is_raised_and_never_lowered(world: World):
    """Sync invariant 10."""
    unit = world.unit()
    if not unit.sink.capabilities.fencing:
        pytest.skip("the sink cannot compare")
    unit.sync(ABC)

    unit.sink.fence(unit.destination, unit.owner, 9)
    unit.sink.fence(unit.destination, unit.owner, 3)

    with pytest.raises(SinkError) as refused:
        unit.sync(dict.fromkeys(ABC, "9"))
    assert refused.value.code == "stale_generation"
    assert refused.value.retryable
    unit.generation = 9
    unit.sync(dict.fromkeys(ABC, "10"))


def test_a_whole_record_of_somebody_else_is_taken_over_only_when_told(world: World):
    """Sync invariant 23."""
    unit = world.unit()
    if unit.sink.capabilities.adopts_unmarked:
        pytest.skip("single keys are adopted")
    record = unit.desired(ABC)["a"].record
    world.by_hand(record, {"a": "theirs"})
    before = world.dump()

    with pytest.raises(PlanRefused) as refused:
        unit.sync(ABC)
    assert refused.value.code == "unowned_destination"
    assert world.dump() == before

    unit.sync(ABC, adopt=True)
    assert unit.read().values == ABC


def test_a_record_that_appears_between_read_and_write_is_not_overwritten(world: World):
    """Sync invariant 23."""
    unit = world.unit()
    if unit.sink.capabilities.adopts_unmarked:
        pytest.skip("single keys are adopted")
    plan = unit.plan(ABC)
    unit.generation = 1
    record = unit.desired(ABC)["a"].record
    world.by_hand(record, {"a": "theirs"})

    with pytest.raises(SinkConflict):
        unit.carry_out(plan)

    found = unit.sink.read(unit.destination, unit.owner, [record])
    assert found.records[record].values == {"a": "theirs"}


def test_a_restore_gives_back_what_was_and_keeps_what_others_changed(world: World):
    """Sync invariant 16."""
    unit = world.unit()
    unit.sync(ABC, prune=prune())
    plan = unit.plan({"a": "9", "b": "2", "d": "4"}, prune=prune())
    unit.generation += 1
    unit.carry_out(plan)

    unit.restore(plan.journal)

    assert (
        unit.sink.read(
            unit.destination, unit.owner, [entry.record for entry in plan.journal]
        ).values.items()
        >= {"a": "1", "c": "3"}.items()
    )
    assert unit.read().values == ABC


@pytest.mark.parametrize("operations", [0, 1, 2, 3, 4])
def test_after_a_crash_between_two_operations_the_next_attempt_ends_in_desired(
    world: World, operations: int
):
    """Sync invariant 17."""
    unit = world.unit()
    unit.sync(ABC, prune=prune())
    plan = unit.plan({"a": "9", "d": "4", "e": "5"}, prune=prune())
    unit.generation += 1
    every = [(put,) for put in plan.puts]
    for puts in every[:operations]:
        unit.apply(puts, ())
    for gone in plan.deletes[: max(0, operations - len(every))]:
        unit.apply((), (gone,))

    unit.sync({"a": "9", "d": "4", "e": "5"}, prune=prune())

    assert unit.read().values == {"a": "9", "d": "4", "e": "5"}


def test_a_record_of_another_unit_is_neither_written_nor_deleted(world: World):
    unit = world.unit()
    if not unit.sink.capabilities.marks_records:
        pytest.skip("no marker on each record")
    unit.sync(ABC)
    other = world.unit(rule="other")
    other.generation = unit.generation
    record = unit.desired(ABC)["a"].record

    with pytest.raises(PlanRefused, match="rule 'shop'"):
        other.plan(ABC, prune=prune())
    version = unit.read().records[record].version
    other.sink.delete(
        other.destination, [Delete(record=record, key="a", version=version)], other.owner, 9
    )

    assert unit.read().values == ABC


def test_keys_that_the_sink_cannot_take_are_refused_before_any_request(world: World):
    """Sync invariant 29."""
    unit = world.unit()
    for key in world.bad_keys:
        with pytest.raises(SinkError) as refused:
            unit.desired({key: "1"})
        assert refused.value.code == "key_invalid"
        assert not refused.value.retryable


def test_names_that_leave_the_destination_are_refused_before_any_request(world: World):
    """Sync invariant 29."""
    for name in world.bad_destinations:
        with pytest.raises(SinkError) as refused:
            world.sink.destination(replace(world.unit().place, rendered=name))
        assert (refused.value.code, name) == ("destination_invalid", name)


def test_equal_places_have_equal_ids_and_others_have_others(world: World):
    """Sync invariant 11."""
    here = world.sink.destination(world.unit().place)
    renamed = world.sink.destination(replace(world.unit().place, rule="other"))

    assert here.id == renamed.id
    assert len(here.id) == 64
