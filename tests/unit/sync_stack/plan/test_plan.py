"""Plans by example: prune and its guards, ownership, modes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sync_stack.core.bundle.rules import Prune, SyncMode
from sync_stack.core.ledger import digest, digester
from sync_stack.core.ownership import PlanRefused, refuse_overlap
from sync_stack.core.plan import DesiredKey, effective_mode, plan_apply
from sync_stack.core.sink import Destination, LiveRecord
from tests.support.fake_sink import FakeSink, Layout
from tests.support.syncing import DIGEST_KEY, PLACE, Unit, prune

TEN = {f"k{number}": str(number) for number in range(10)}


def synced(layout: Layout, values: dict[str, str], **options) -> Unit[FakeSink]:
    unit = Unit(FakeSink(layout))
    unit.sync(values, prune=prune(), **options)
    return unit


def without(values: dict[str, str], *keys: str) -> dict[str, str]:
    return {key: text for key, text in values.items() if key not in keys}


def test_a_digester_gives_the_digest_of_each_value():
    digest_of = digester(DIGEST_KEY)

    assert [digest_of(text) for text in ("a", "ü", "", "a")] == [
        digest(DIGEST_KEY, text) for text in ("a", "ü", "", "a")
    ]


def test_upsert_all_writes_every_key_and_counts_what_changed():
    unit = synced(Layout.HASH, {"a": "1", "b": "2"})

    plan = unit.plan({"a": "1", "b": "3"}, mode=SyncMode.GIT_UPSERT_ALL)

    assert [put.record for put in plan.puts] == ["a", "b"]
    assert plan.written == {"b"}
    assert plan.unchanged == {"a"}


@pytest.mark.parametrize("mode", [SyncMode.GIT_SMART_REPAIR, SyncMode.LIVE_STATE])
def test_repair_writes_only_what_is_missing_or_differs(mode):
    unit = synced(Layout.HASH, {"a": "1", "b": "2"})

    plan = unit.plan({"a": "1", "b": "3", "c": "4"}, mode=mode)

    assert [put.record for put in plan.puts] == ["b", "c"]


@pytest.mark.parametrize(
    ("keys", "mode"), [(500, SyncMode.GIT_UPSERT_ALL), (501, SyncMode.GIT_SMART_REPAIR)]
)
def test_auto_writes_everything_up_to_five_hundred_keys(keys, mode):
    unit = Unit(FakeSink(Layout.HASH))
    desired = unit.desired({f"k{number}": "v" for number in range(keys)})

    assert effective_mode(unit.request(desired)) is mode


def test_values_are_compared_as_text():
    """Sync invariant 21."""
    unit = synced(Layout.HASH, {"v": "1.10"})

    assert unit.plan({"v": "1.1"}, mode=SyncMode.LIVE_STATE).written == {"v"}


@pytest.mark.parametrize("layout", [Layout.HASH, Layout.KEY_VALUE])
def test_a_dry_prune_names_what_is_there_and_ours(layout):
    """Sync invariant 13: neither what somebody has deleted nor what bears another's marker."""
    unit = synced(layout, TEN)
    place = unit.sink.places[unit.destination.id]
    del place.records["k1"]
    other = replace(unit.mark(), rule="other")
    place.records["k2"] = LiveRecord(values={"k2": "2"}, mark=other)
    kept = without(TEN, "k1", "k2", "k3")

    plan = unit.plan(kept, prune=prune(dry_run=True))
    real = unit.plan(kept, prune=prune())

    assert (plan.would_prune, plan.released) == (frozenset({"k3"}), frozenset({"k2"}))
    assert real.pruned == {"k3"}
    assert [gone.record for gone in real.deletes] == ["k3"]


def test_live_state_prunes_with_prune_off():
    unit = synced(Layout.HASH, TEN)

    plan = unit.plan(without(TEN, "k1"), mode=SyncMode.LIVE_STATE)

    assert plan.pruned == {"k1"}


def test_without_prune_a_key_that_git_lost_is_retained_and_still_owned():
    unit = synced(Layout.HASH, TEN)
    unit.sync(without(TEN, "k1"))
    assert unit.ledger
    kept = unit.ledger.retained["k1"]

    plan = unit.sync(without(TEN, "k1"), prune=prune())

    assert kept.digest == digest(DIGEST_KEY, "1")
    assert plan.pruned == {"k1"}
    assert unit.ledger.retained == {}


def test_a_protected_key_is_retained_until_protection_ends():
    unit = synced(Layout.HASH, TEN)

    first = unit.sync(without(TEN, "k1", "k2"), prune=prune(protection=("k1*",)))
    second = unit.sync(without(TEN, "k1", "k2"), prune=prune())

    assert first.pruned == {"k2"}
    assert second.pruned == {"k1"}


def test_globs_in_dot_form_protect_flat_keys():
    unit = synced(Layout.HASH, {"db_host": "h", "other": "o"})

    plan = unit.plan({}, prune=prune(protection=("db.*",)))

    assert plan.pruned == {"other"}


@pytest.mark.parametrize(
    ("gone", "limits", "refused"),
    [
        (["k1"], Prune(enabled=True), False),
        (["k1", "k2"], Prune(enabled=True), False),
        (["k1", "k2", "k3"], Prune(enabled=True), True),
        (["k1", "k2", "k3"], Prune(enabled=True, max_delete_floor=3), False),
        (list(TEN), Prune(enabled=True, max_delete_ratio=1.0), True),
        (list(TEN), Prune(enabled=True, max_delete_ratio=1.0, allow_empty=True), False),
        (["k1", "k2", "k3"], Prune(), False),
    ],
)
def test_the_guard_stops_a_sync_that_deletes_too_much(gone, limits, refused):
    """Sync invariant 14."""
    unit = synced(Layout.HASH, TEN)
    before = unit.sink.dump(unit.destination)

    if not refused:
        assert unit.plan(without(TEN, *gone), prune=limits)
        return
    with pytest.raises(PlanRefused) as refusal:
        unit.sync(without(TEN, *gone), prune=limits)

    assert refusal.value.code == "prune_guard"
    assert refusal.value.keys == tuple(sorted(gone))
    assert unit.sink.dump(unit.destination) == before


def test_the_guard_stands_before_a_whole_record_even_with_prune_off():
    unit = synced(Layout.DOCUMENT, TEN)

    with pytest.raises(PlanRefused, match="9 of 10"):
        unit.plan({"k0": "0"})


def test_an_approval_waives_the_guard_for_exactly_the_keys_that_were_seen():
    unit = synced(Layout.HASH, TEN)
    desired = without(TEN, "k1", "k2", "k3")
    limits = Prune(enabled=True)

    plan = unit.plan(desired, prune=limits, approved=frozenset({"k1", "k2", "k3"}))

    assert plan.pruned == {"k1", "k2", "k3"}
    with pytest.raises(PlanRefused):
        unit.plan(desired, prune=limits, approved=frozenset({"k1", "k2"}))


def test_a_cleanup_that_was_asked_for_deletes_all_but_protected_keys():
    unit = synced(Layout.HASH, TEN)

    plan = unit.plan({}, prune=Prune(enabled=True, protection=("k9",)), limits_waived=True)

    assert plan.pruned == TEN.keys() - {"k9"}


@pytest.mark.parametrize("layout", list(Layout))
def test_the_keys_of_a_missing_file_stay_as_they_are(layout):
    """Sync invariant 15."""
    unit = Unit(FakeSink(layout))
    both = unit.desired({"a": "1"}, "a.yaml") | unit.desired({"b": "2"}, "b.yaml")
    unit.sync_keys(both, prune=prune())

    plan = unit.sync_keys(
        unit.desired({"a": "2"}, "a.yaml"), prune=prune(), missing_files=frozenset({"b.yaml"})
    )

    assert unit.read().values == {"a": "2", "b": "2"}
    assert plan.held.keys() == {"b"}
    assert unit.ledger
    assert unit.ledger.owned_keys().keys() == {"a", "b"}


@pytest.mark.parametrize("layout", list(Layout))
def test_prune_of_one_file_leaves_the_other_files_of_the_unit_alone(layout):
    """Sync invariant 15."""
    unit = Unit(FakeSink(layout))
    both = unit.desired({"a": "1", "c": "3"}, "a.yaml") | unit.desired({"b": "2"}, "b.yaml")
    unit.sync_keys(both, prune=prune())

    rest = unit.desired({"c": "3"}, "a.yaml") | unit.desired({"b": "2"}, "b.yaml")
    plan = unit.sync_keys(rest, prune=prune())

    assert plan.pruned == {"a"}
    assert unit.read().values == {"b": "2", "c": "3"}


def test_the_record_of_a_renamed_file_goes_with_prune():
    unit = Unit(FakeSink(Layout.FILE))
    unit.sync_keys(unit.desired({"a": "1"}, "old.yaml"), prune=prune())

    unit.sync_keys(unit.desired({"a": "1"}, "new.yaml"), prune=prune())

    assert unit.read().records.keys() == {"new.yaml"}


def test_the_record_of_a_renamed_file_stays_while_prune_is_only_tried():
    """Sync invariant 22."""
    unit = Unit(FakeSink(Layout.FILE))
    unit.sync_keys(unit.desired({"a": "1"}, "old.yaml"), prune=prune())

    unit.sync_keys(unit.desired({"a": "1"}, "new.yaml"), prune=prune(dry_run=True))

    assert unit.read().records.keys() == {"old.yaml", "new.yaml"}


def test_the_record_of_a_file_that_git_lost_stays_with_prune_off():
    unit = Unit(FakeSink(Layout.FILE))
    both = unit.desired({"a": "1"}, "a.yaml") | unit.desired({"b": "2"}, "b.yaml")
    unit.sync_keys(both)

    plan = unit.sync_keys(unit.desired({"a": "1"}, "a.yaml"))

    assert unit.read().records.keys() == {"a.yaml", "b.yaml"}
    assert plan.retained == {"b": "b.yaml"}


def test_a_candidate_that_somebody_else_has_overwritten_is_released():
    """Sync invariant 13."""
    unit = synced(Layout.KEY_VALUE, TEN)
    unit.sink.put_by_hand(unit.destination, "k1", {"k1": "theirs"})

    plan = unit.sync(without(TEN, "k1"), prune=prune())

    assert plan.released == {"k1"}
    assert not plan.pruned
    assert unit.read().records.keys() == TEN.keys() - {"k1"}
    assert unit.ledger
    assert "k1" not in unit.ledger.owned_keys()


def test_live_records_with_our_mark_are_owned_though_the_ledger_is_lost():
    unit = synced(Layout.KEY_VALUE, {"a": "1", "b": "2"})
    unit.ledger = None

    plan = unit.plan({"a": "1"}, prune=prune())

    assert plan.pruned == {"b"}


def test_a_live_key_that_nobody_owns_is_adopted_and_given_back_unmarked():
    unit = Unit(FakeSink(Layout.KEY_VALUE))
    unit.sink.put_by_hand(unit.destination, "a", {"a": "theirs"})
    plan = unit.plan({"a": "ours"})
    unit.generation = 1
    unit.carry_out(plan)

    unit.restore(plan.journal)

    record = unit.sink.read(unit.destination, unit.owner, ["a"]).records["a"]
    assert plan.adopted == {"a"}
    assert (record.values, record.mark) == ({"a": "theirs"}, None)


@pytest.mark.parametrize("layout", [Layout.DOCUMENT, Layout.FILE])
def test_a_whole_record_without_our_mark_is_replaced_only_with_adopt(layout):
    """Sync invariant 23."""
    unit = Unit(FakeSink(layout))
    record = unit.desired({"a": "1"})["a"].record
    unit.sink.put_by_hand(unit.destination, record, {"theirs": "1"})

    with pytest.raises(PlanRefused) as refusal:
        unit.sync({"a": "1"})
    assert refusal.value.code == "unowned_destination"

    unit.sync({"a": "1"}, adopt=True)
    assert unit.read().values == {"a": "1"}


def test_a_destination_that_lost_our_label_is_replaced_only_with_adopt(monkeypatch):
    """Sync invariant 23: somebody may have made it anew, though the ledger knows it."""
    unit = synced(Layout.HASH, {"a": "1"})
    read = unit.sink.read
    monkeypatch.setattr(unit.sink, "read", lambda *asked: replace(read(*asked), unowned=True))

    with pytest.raises(PlanRefused) as refusal:
        unit.plan({"a": "2"})
    assert refusal.value.code == "unowned_destination"
    assert unit.plan({"a": "2"}, adopt=True).written == {"a"}


def test_a_whole_record_of_ours_that_lost_its_mark_is_drift():
    unit = synced(Layout.DOCUMENT, {"a": "1"})
    unit.sink.put_by_hand(unit.destination, "document", {"a": "2", "x": "3"})

    unit.sync({"a": "1"}, heal=True)

    assert unit.read().values == {"a": "1"}


def test_a_record_of_another_unit_is_a_conflict_that_names_it():
    unit = synced(Layout.KEY_VALUE, {"a": "1"})
    other = Unit(unit.sink, place=replace(PLACE, rule="other"))

    with pytest.raises(PlanRefused, match="rule 'shop', acme/shop") as by_mark:
        other.plan({"a": "2"})
    with pytest.raises(PlanRefused, match="unit seven") as by_ledger:
        other.plan({"b": "2"}, taken={"b": "unit seven"})

    assert {by_mark.value.code, by_ledger.value.code} == {"ownership_conflict"}


def test_a_rule_that_takes_over_a_former_one_marks_its_records():
    unit = synced(Layout.KEY_VALUE, {"a": "1"})
    heir = Unit(unit.sink, place=replace(PLACE, rule="heir"), ledger=unit.ledger)
    heir.owner = replace(heir.owner, former_rules=frozenset({"shop"}))
    heir.generation = unit.generation

    plan = heir.sync({"a": "1"}, mode=SyncMode.GIT_SMART_REPAIR)

    mark = heir.read().records["a"].mark
    assert not plan.written
    assert mark
    assert mark.rule == "heir"


def test_foreign_keys_refuse_a_sink_that_wants_to_be_alone():
    unit = Unit(FakeSink(Layout.HASH))
    unit.sink.capabilities = replace(unit.sink.capabilities, refuses_foreign=True)
    unit.sink.put_by_hand(unit.destination, "theirs", {"theirs": "1"})

    with pytest.raises(PlanRefused) as refusal:
        unit.plan({"a": "1"})

    assert (refusal.value.code, refusal.value.keys) == ("unowned_destination", ("theirs",))


def test_a_sink_that_prunes_by_itself_keeps_the_guards():
    unit = synced(Layout.HASH, TEN)
    unit.sink.capabilities = replace(unit.sink.capabilities, implied_prune=True)

    assert unit.plan(without(TEN, "k1"), prune=Prune()).pruned == {"k1"}
    with pytest.raises(PlanRefused):
        unit.plan({"k0": "0"}, prune=Prune())


def test_what_does_not_read_back_is_named():
    unit = Unit(FakeSink(Layout.HASH))
    plan = unit.plan({"a": "1", "b": "2"})
    unit.generation = 1
    unit.carry_out(plan)
    unit.sink.put_by_hand(unit.destination, "b", {"b": "3"})

    assert plan.unverified_records(unit.sink.read(unit.destination, unit.owner, ["a", "b"])) == (
        "b",
    )


def test_an_adopted_key_of_a_hash_needs_no_write_when_it_is_equal():
    unit = Unit(FakeSink(Layout.HASH))
    unit.sink.put_by_hand(unit.destination, "a", {"a": "1"})

    plan = unit.plan({"a": "1"}, mode=SyncMode.GIT_SMART_REPAIR)

    assert plan.adopted == {"a"}
    assert not plan.puts


def test_a_plan_depends_on_its_request_alone():
    unit = Unit(FakeSink(Layout.HASH))
    request = unit.request({"a": DesiredKey(value="1", record="a")})

    assert plan_apply(request) == plan_apply(request)
    assert LiveRecord(values={}).mark is None


def place(address: str, separator: str = "/") -> Destination:
    return Destination(kind="s3", name=address, address=address, separator=separator)


@pytest.mark.parametrize("other", ["s3://b/a/b", "s3://b/a/b/c"])
def test_a_destination_inside_that_of_an_older_unit_is_a_conflict(other):
    with pytest.raises(PlanRefused, match="overlaps"):
        refuse_overlap(place(other), {"unit one": place("s3://b/a")})


@pytest.mark.parametrize("other", ["s3://b/ab", "s3://b/a", "s3://b"])
def test_neighbours_do_not_overlap(other):
    older = {"unit one": place("s3://b/a", "" if other == "s3://b" else "/")}
    refuse_overlap(place(other, "" if other == "s3://b" else "/"), older)


def test_the_id_of_a_destination_depends_on_kind_and_address_alone():
    assert place("s3://b/a").id == replace(place("s3://b/a"), name="called otherwise").id
    assert place("s3://b/a").id != replace(place("s3://b/a"), kind="redis").id
