"""Restores by example."""

from __future__ import annotations

from sync_stack.core.journal import JournalRecord, merge_journals, plan_restore
from sync_stack.core.sink import Delete, Live, LiveRecord, Put


def entry(previous=None, intended=None, record="r", **fields) -> JournalRecord:
    return JournalRecord(record=record, previous=previous, intended=intended, **fields)


def live(**records: dict[str, str]) -> Live:
    return Live(records={name: LiveRecord(values=values) for name, values in records.items()})


def test_a_created_key_is_removed_a_changed_one_put_back_a_deleted_one_re_created():
    journal = [
        entry(None, {"new": "1"}, "new"),
        entry({"old": "1"}, {"old": "2"}, "old"),
        entry({"gone": "1"}, None, "gone"),
    ]

    restore = plan_restore(journal, live(new={"new": "1"}, old={"old": "2"}))

    assert restore.deletes == (Delete(record="new", key="new"),)
    assert restore.puts == (
        Put(record="gone", values={"gone": "1"}),
        Put(record="old", values={"old": "1"}),
    )
    assert restore.keys == 3


def test_what_somebody_else_changed_stays_and_is_named():
    """Sync invariant 16."""
    restore = plan_restore([entry({"a": "1"}, {"a": "2"})], live(r={"a": "theirs"}))

    assert not restore.keys
    assert restore.kept == {"a"}


def test_a_whole_record_is_restored_key_by_key():
    journal = [entry({"a": "1", "b": "1", "c": "1"}, {"a": "2", "b": "2"})]

    restore = plan_restore(journal, live(r={"a": "2", "b": "theirs", "x": "new"}))

    assert restore.puts == (
        Put(record="r", values={"b": "theirs", "x": "new", "a": "1", "c": "1"}),
    )
    assert restore.kept == {"b", "x"}


def test_a_record_that_somebody_else_deleted_stays_deleted():
    restore = plan_restore([entry({"a": "1"}, {"a": "2"})], live())

    assert (restore.puts, restore.deletes) == ((), ())


def test_a_created_record_to_which_somebody_added_a_key_keeps_that_key():
    restore = plan_restore([entry(None, {"a": "1"})], live(r={"a": "1", "theirs": "2"}))

    assert restore.puts == (Put(record="r", values={"theirs": "2"}),)
    assert restore.deletes == ()


def test_what_was_never_carried_out_needs_no_restore():
    journal = [entry(None, {"a": "1"}, "a"), entry({"b": "1"}, {"b": "2"}, "b")]

    restore = plan_restore(journal, live(b={"b": "1"}))

    assert (restore.puts, restore.deletes, restore.kept) == ((), (), frozenset())


def test_a_roll_forward_keeps_what_the_older_journal_replaced():
    older = [entry({"a": "1"}, {"a": "2"}, "a"), entry(None, {"b": "1"}, "b")]
    newer = [entry({"a": "2"}, {"a": "3"}, "a"), entry({"c": "1"}, None, "c")]

    merged = {each.record: each for each in merge_journals(older, newer)}

    assert (merged["a"].previous, merged["a"].intended) == ({"a": "1"}, {"a": "3"})
    assert merged.keys() == {"a", "b", "c"}
