"""What polls find: drift is seen, logged and counted, and nothing else is."""

from __future__ import annotations

import json
import logging
from dataclasses import replace

import pytest

from sync_stack.configuration.logs import JsonLines
from sync_stack.core.ledger import Intent
from sync_stack.orchestrator.models import DestinationLock, LedgerTarget, Task
from sync_stack.orchestrator.selectors import ledgers
from sync_stack.orchestrator.services import ledger_records
from tests.support.fake_sink import FakeSink
from tests.sync.watcher.watching import PLACE, Watching


def lines(caplog, event: str) -> list[logging.LogRecord]:
    return [record for record in caplog.records if getattr(record, "event", "") == event]


def test_a_unit_that_is_as_git_says_is_in_sync(watching: Watching):
    watching.poll()
    assert watching.unit.status == "in_sync"
    assert watching.unit.status_at is not None
    assert watching.episodes == []
    assert watching.count("poll", outcome="ok") == 1


def test_drift_that_is_there_at_the_first_start_is_seen(watching: Watching):
    """Sync invariant 38."""
    watching.world.with_rules(self_heal=False)
    watching.by_hand()
    watching.poll()
    assert watching.states == ["open"]
    assert watching.count("drift") == 1


def test_drift_without_self_heal_is_logged_at_every_poll_counted_once_and_never_healed(
    watching: Watching, caplog
):
    """Sync invariant 40."""
    watching.world.with_rules(self_heal=False)
    watching.by_hand("a")
    watching.forget("b")
    for _ in range(3):
        watching.poll()

    assert watching.count("drift") == 1, "an alert on its rate rests while nothing new happens"
    assert watching.orchestrator.calls == []
    assert watching.unit.status == "drifted"
    (row,) = watching.episodes
    assert (row.polls, row.counts["changed"], row.counts["removed"]) == (3, 1, 1)
    told = lines(caplog, "drift_detected")
    assert [record.levelname for record in told] == ["WARNING"] * 3
    line = json.loads(JsonLines().format(told[0]))
    assert (line["changed"], line["removed"], line["added"]) == (["a"], ["b"], [])
    assert (line["rule_id"], line["env"], line["self_heal"]) == ("shop", "production", False)
    assert "values" not in line
    assert line["detected_at"].endswith("Z")


def test_each_episode_of_drift_is_counted(watching: Watching):
    watching.world.with_rules(self_heal=False)
    for _ in range(2):
        watching.by_hand("a")
        watching.poll()
        watching.poll()
        watching.by_hand("a", "1")
        watching.poll()

    assert watching.count("drift") == len(watching.episodes) == 2


def test_another_type_of_thing_in_the_place_of_a_key_is_drift(watching: Watching, caplog):
    """Sync invariant 40: it was a failed read, and the unit stayed `in_sync`."""
    watching.world.with_rules(self_heal=False)
    watching.poll()
    watching.put_other_type("a")
    watching.poll()

    assert (watching.unit.status, watching.count("drift")) == ("drifted", 1)
    assert watching.episodes[0].counts["changed"] == 1
    (record,) = lines(caplog, "drift_detected")
    assert record.changed == ["a"]  # type: ignore[attr-defined]
    assert watching.orchestrator.calls == []


def test_values_are_logged_only_when_asked_for_and_never_of_secret_keys(watching: Watching, caplog):
    """Sync invariant 24."""
    unit = ledgers.get(watching.unit.id)
    assert unit is not None
    assert unit.applied is not None
    keys = dict(unit.applied.keys)
    keys["b"] = keys["b"]._replace(secret=True)
    ledger_records.save(replace(unit, applied=replace(unit.applied, keys=keys)))
    watching.world.with_rules(self_heal=False)
    watching.checker.log_values = True
    watching.by_hand("a", "shown")
    watching.by_hand("b", "hidden99")
    watching.poll()

    (record,) = lines(caplog, "drift_detected")
    assert record.values == {"a": "shown"}  # type: ignore[attr-defined]
    assert "hidden99" not in JsonLines().format(record)
    assert "shown" not in str(watching.episodes[0].changes)


def test_many_keys_are_cut_in_the_line_and_in_the_record(watching: Watching, caplog):
    watching.world.with_rules(self_heal=False)
    keys = "\n".join(f"k{number}: 1" for number in range(300))
    watching.world.finish(watching.world.commit_and_push({"app.yaml": keys}))
    for number in range(300):
        watching.by_hand(f"k{number}")
    watching.poll()

    (record,) = lines(caplog, "drift_detected")
    assert len(record.changed) == 50  # type: ignore[attr-defined]
    assert record.truncated is True  # type: ignore[attr-defined]
    assert len(watching.episodes[0].changes) == 200
    assert watching.episodes[0].counts["changed"] == 300


def test_keys_of_others_are_counted_and_no_drift(watching: Watching):
    watching.by_hand("theirs")
    watching.poll()
    assert watching.unit.status == "in_sync"
    assert b'svc_watcher_foreign_keys{datasource="sink"} 1.0' in text(watching)


def text(watching: Watching) -> bytes:
    watching.metrics.show(dict(watching.checker.facts))
    return watching.metrics.text()


def test_a_sync_is_no_drift_before_during_and_after(watching: Watching):
    """Sync invariant 38."""
    task = watching.world.commit_and_push({"app.yaml": "a: 5\n"})
    watching.poll()
    watching.world.finish(task)
    watching.poll()
    assert watching.episodes == []
    assert watching.unit.status == "in_sync"


def test_while_a_task_holds_the_destination_nothing_is_compared(watching: Watching):
    """Sync invariant 38."""
    Task.objects.update(state="RUNNING", finished_at=None)
    task = Task.objects.get()
    DestinationLock.objects.update(holder_task=task.id, holder_attempt=task.attempt)
    watching.by_hand()
    watching.poll()
    assert (watching.unit.status, watching.episodes) == ("syncing", [])


def test_a_sync_that_comes_during_the_read_makes_the_read_worthless(watching: Watching):
    """Sync invariant 38."""
    sink = watching.world.sink
    task = watching.world.commit_and_push({"app.yaml": "a: 5\n"})
    pushed: list[Task] = []
    read = FakeSink.read

    def syncing(*args):
        """The ledger has been read; what is live now is newer."""
        if not pushed:
            pushed.append(task)
            watching.world.finish(task)
        return read(sink, *args)

    sink.read = syncing
    watching.poll()
    assert pushed
    assert watching.episodes == []
    assert watching.unit.status == "in_sync"


@pytest.mark.parametrize(("over", "status"), [(True, "inconsistent"), (False, "syncing")])
def test_an_intent_that_is_left_over_is_inconsistent_only_when_its_task_has_ended(
    watching: Watching, over, status
):
    """Sync invariant 38."""
    watching.world.with_rules(self_heal=False)
    ledger = ledgers.get(watching.unit.id)
    assert ledger is not None
    assert ledger.applied is not None
    ledger_records.save(replace(ledger, intent=Intent(state=ledger.applied, journal="")))
    if not over:
        Task.objects.update(state="RETRYING", finished_at=None)
    watching.by_hand()
    watching.poll()
    assert watching.unit.status == status
    assert watching.states == (["open"] if over else [])


def test_what_was_never_applied_is_unknown(watching: Watching):
    ledger = ledgers.get(watching.unit.id)
    assert ledger is not None
    ledger_records.save(replace(ledger, applied=None))
    watching.poll()
    assert (watching.unit.status, watching.episodes) == ("unknown", [])


def test_without_the_digests_key_nothing_can_differ(watching: Watching, settings):
    settings.SECRET_KEY = "another-secret-key-for-this-test-0123456789-0123456789"
    watching.by_hand()
    watching.poll()
    assert watching.episodes == []


@pytest.mark.parametrize(
    "fields",
    [
        {"name": "renamed"},
        {"repositories": ("other/*",)},
        {"destination_template": "elsewhere-{env}"},
    ],
)
def test_orphans_are_not_watched(watching: Watching, fields):
    watching.world.with_rules(**fields)
    watching.by_hand()
    watching.poll()
    assert watching.episodes == []
    assert watching.checker.facts == {}


def test_a_read_that_fails_is_neither_drift_nor_heal_and_changes_no_status(watching: Watching):
    """Sync invariant 43."""
    watching.poll()
    watching.by_hand()
    watching.world.sink.partial = True
    watching.poll()
    assert watching.unit.status == "in_sync"
    assert watching.episodes == []
    assert watching.orchestrator.calls == []
    assert watching.count("poll", outcome="error") == 1


def test_a_fault_at_one_unit_does_not_hide_the_others(watching: Watching, caplog):
    watching.world.with_rules(self_heal=False)
    watching.world.finish(watching.world.commit_and_push({"app.yaml": "c: 1\n"}, branch="develop"))
    sink, read = watching.world.sink, watching.world.sink.read

    def faulty(destination, owner, records):
        if owner.env == "staging":
            raise ZeroDivisionError
        return read(destination, owner, records)

    sink.read = faulty
    watching.by_hand()
    watching.poll()
    assert watching.states == ["open"]
    assert watching.count("poll", outcome="error") == 1
    assert lines(caplog, "poll_failed")


def test_drift_that_goes_by_itself_is_resolved_by_whoever_undid_it(watching: Watching):
    watching.world.with_rules(self_heal=False)
    watching.by_hand("a", "9")
    watching.poll()
    watching.by_hand("a", "1")
    watching.poll()
    assert (watching.states, watching.episodes[0].resolved_by) == (["resolved"], "external")

    watching.by_hand("a", "9")
    watching.poll()
    watching.world.finish(watching.world.commit_and_push({"app.yaml": "a: 7\nb: 2\n"}))
    watching.poll()
    assert watching.states == ["resolved", "resolved"]
    assert watching.episodes[1].resolved_by == "sync"


def test_the_baseline_is_what_git_said_however_long_drift_lasts(watching: Watching):
    """Sync invariant 39."""
    watching.world.with_rules(self_heal=False)
    before = bytes(LedgerTarget.objects.get(id=watching.unit.id).content)
    watching.by_hand()
    for _ in range(3):
        watching.poll()
    assert bytes(LedgerTarget.objects.get(id=watching.unit.id).content) == before
    assert watching.states == ["open"]


def test_metrics_carry_names_of_the_bundle_only(watching: Watching):
    """Sync invariant 32."""
    LedgerTarget.objects.update(env="pr-12345")
    watching.world.with_rules(
        self_heal=False, destination_template="production-shop", allow_overrides=True
    )
    watching.by_hand()
    watching.poll()
    shown = text(watching)
    assert b"pr-12345" not in shown
    assert b'svc_watcher_drift_keys{datasource="sink",env="other",rule="shop"} 1.0' in shown


def test_the_destination_is_only_read(watching: Watching):
    watching.world.with_rules(self_heal=False)
    watching.by_hand()
    before = watching.world.sink.dump(PLACE)
    watching.poll()
    assert watching.world.sink.dump(PLACE) == before
