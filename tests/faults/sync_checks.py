"""What must hold of a history: at every moment, and once it has settled."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from sync_stack.core.bundle.rules import Rule, SyncMode
from sync_stack.core.ownership import protected_keys
from sync_stack.core.tasks import MESSAGES, RETRYABLE, TERMINAL
from sync_stack.orchestrator.domain import identity
from sync_stack.orchestrator.domain.identity import RefName
from sync_stack.orchestrator.models import DestinationLock, JournalChunk, LedgerTarget, Task
from sync_stack.orchestrator.selectors import ledgers, refs
from sync_stack.orchestrator.services.execution.rule_scope import rule_digest
from tests.faults.sync_world import MANY, History
from tests.support.fake_sink import Layout

ROUNDS: Final = 20  # of sweeps until nothing is left to do
ATTEMPTS: Final = 400
DONE: Final = {"completed", "no_changes"}


@dataclass
class Watched:
    """Compared after every step: what is over stays over, generations rise, commits move on."""

    over: dict[str, tuple[str, str]] = field(default_factory=dict)
    generations: dict[str, int] = field(default_factory=dict)
    applied: dict[tuple[str, str], list[str]] = field(default_factory=dict)

    def check(self, history: History) -> None:
        assert not history.wrong, history.wrong
        self._tasks()
        for unit in LedgerTarget.objects.exclude(commit=""):
            self._unit(history, unit)

    def _tasks(self) -> None:
        now = {}
        for task in Task.objects.all():
            assert task.error.get("code") != "internal_error", task.error
            now[task.id] = (task.state, task.message)
        for task_id, ended in self.over.items():
            assert now[task_id] == ended, f"{task_id} was {ended} and is {now[task_id]}"
        self.over = {name: ended for name, ended in now.items() if ended[0] in TERMINAL}

    def _unit(self, history: History, unit: LedgerTarget) -> None:
        before = self.generations.get(unit.id, 0)
        if unit.generation == before:
            return
        assert unit.generation > before, f"generation {unit.generation} after {before}"
        self.generations[unit.id] = unit.generation
        seen = self.applied.setdefault((unit.id, unit.ref), [])
        seen.append("" if unit.commit == identity.GONE else unit.commit)
        task = Task.objects.get(id=unit.last_task_id)
        if task.kind == "heal":  # since the last look a sync may have brought what it heals
            asked = task.request["heal"].get("commit") or (seen[-2] if seen[1:] else unit.commit)
            assert unit.commit == asked, "a heal brought another commit"
            if seen[-2:-1] == seen[-1:]:
                seen.pop()
        assert history.git.explains(unit.ref, seen), f"an older commit over a newer: {seen}"


def settle(history: History) -> None:
    """Everything answers again; sweeps, workers and the watcher go on until nothing is left.

    Workers know of tasks by messages only: what a broker lost or refused is found by the sweep.
    """
    history.chaos.away.clear()
    history.broker.fault("back")
    for _ in range(ROUNDS):
        if Task.objects.filter(state="RUNNING").exists():
            history.recover()
        attempts = _run_all(history)
        made = history.look() + history.watch()
        if not made and not attempts and not history.waiting():
            return
    left = [(task.kind, task.message, task.error) for task in Task.objects.order_by("-id")[:6]]
    raise AssertionError(f"it does not settle: {left}")


def _run_all(history: History) -> int:
    """How many messages were worked off until no task waits."""
    taken = 0
    for _ in range(ATTEMPTS):
        if not history.waiting():
            return taken
        taken += history.work_off_messages()
    left = [(task.state, task.message) for task in history.waiting()]
    raise AssertionError(f"a task loops, or nobody is told of it: {left}")


def check_settled(history: History) -> None:
    """Live equals Git; nothing of others is gone; every delivery is accounted for."""
    for place in [key for key in history.theirs if _adopted(history, *key)]:
        del history.theirs[place]
    _check_tasks(history)
    _check_nothing_held(history)
    for rule in history.rules:
        for ref in history.git.past:
            _check_ref(history, rule, ref)
    _check_leftovers(history)
    for (destination, record), values in history.theirs.items():
        found = history.sink._place(history.place(destination)).records.get(record)
        assert found is not None, f"{record!r} of {destination} was not ours and is gone"
        assert found.values == values, f"{record!r} of {destination} was not ours"


def _adopted(history: History, destination: str, record: str) -> bool:
    """Git came to declare just the value that somebody had written."""
    known = ledgers.at_destination(history.place(destination).id)
    return any(record in ledger.settled_records() for ledger in known)


def _check_tasks(history: History) -> None:
    """Sync invariants 1, 35: an answer 202 is a task that ended, with a reason."""
    for task_id in history.accepted:
        task = Task.objects.get(id=task_id)
        assert task.state in TERMINAL, f"{task_id} is {task.state}"
        assert task.message in {*MESSAGES, *RETRYABLE}, task.message
        if task.message == "superseded":
            by = Task.objects.get(id=task.superseded_by)
            assert (by.state, by.coalesce_key) == ("SUCCEEDED", task.coalesce_key)
        if task.state != "SUCCEEDED":
            assert task.error["code"] == task.message, task.error


def _check_nothing_held(history: History) -> None:
    writing = {rule.name for rule in history.rules if not rule.dry_run}
    for unit in LedgerTarget.objects.exclude(intent_task_id=""):
        task = Task.objects.get(id=unit.intent_task_id)
        assert unit.rule_id not in writing, f"{unit} is half written: {task} {task.message}"
    named = set(LedgerTarget.objects.values_list("journal", flat=True))
    for lease in DestinationLock.objects.exclude(holder_task=""):
        assert Task.objects.get(id=lease.holder_task).state in TERMINAL, lease
    for chunk in JournalChunk.objects.all():
        over = Task.objects.get(id=chunk.task_id).state in TERMINAL  # the retention sweep takes it
        assert over or chunk.journal in named


@dataclass(frozen=True)
class Place:
    """A rule's unit of one ref, and what Git has for it: None without a file of it."""

    rule: Rule
    env: str
    destination: str
    values: dict[str, str] | None
    poisoned: bool


def _check_ref(history: History, rule: Rule, ref: str) -> None:
    branch = ref.removeprefix("refs/heads/")
    record = refs.find(RefName(rule=rule.name, repo=history.git.name, ref=ref))
    head = history.git.heads.get(ref, identity.GONE)
    mapped = branch in rule.branch_map
    if record is None or record.observed is None:
        due = rule.repositories == ("acme/shop",) and mapped and head != identity.GONE
        assert not due, f"{rule.name} has never looked at {ref}"
        return
    env = rule.branch_map.get(branch) or (branch if rule.env_as_branch and not _main(ref) else "")
    if not env or (rule.env_as_branch and not branch.startswith("feature-")):
        assert record.observed.outcome in {"ref_not_mapped", "repository_not_matched"}, (
            record.observed
        )
        return
    assert record.observed.commit == head, f"{rule.name} saw {record.observed}, {ref} is {head}"
    if head == identity.GONE:
        _check_gone(history, rule, env)
    else:
        place = _place(history, rule, env, head)
        _check_unit(history, place, head, record)


def _main(ref: str) -> bool:
    return ref == "refs/heads/main"


def _destination(history: History, rule: Rule, env: str) -> str:
    return rule.destination_template.replace("{env}", env).replace("{repo}", "shop")


def _place(history: History, rule: Rule, env: str, head: str) -> Place:
    tree = history.git.commits[head]
    names = [rule.file_name] if rule.file_name else list(MANY)
    texts = [tree[name] for name in names if name in tree]
    poisoned = any(text == POISON for text in texts)
    values: dict[str, str] | None = None
    if texts and not poisoned:
        values = {key: text for each in texts for key, text in json.loads(each).items()}
    return Place(rule, env, _destination(history, rule, env), values, poisoned)


POISON: Final = '{"k1": '


def _check_gone(history: History, rule: Rule, env: str) -> None:
    if not rule.env_as_branch:
        return
    live = _live(history, _destination(history, rule, env))
    known = {key for _record, key in _ours(history, _destination(history, rule, env))}
    allowed = protected_keys(live.keys(), rule.prune.protection)
    assert not (live.keys() & known) - allowed, f"{env} is gone and {live} is left"


def _check_unit(history: History, place: Place, head: str, record: Any) -> None:
    outcome, rule = record.observed.outcome, place.rule
    if record.observed.rule_digest != rule_digest(history.bundle, rule):
        units = ledgers.intents_of_ref(rule.name, history.git.name, record.name.ref)
        assert not units, f"{rule.name} was changed and {record.name.ref} is as before"
        return  # nothing was ever written: the next change of the ref looks again
    if outcome in DONE:
        assert place.values is not None, f"{outcome} without a file that can be read"
        _check_values(history, place, head)
    else:
        assert outcome in set(_reasons(history, place)), f"{outcome} at {place}"


def _reasons(history: History, place: Place) -> Iterator[str]:
    """Why a head may not be what is live."""
    rule = place.rule
    if place.poisoned:
        yield "parse_error"
    missing = any(
        name not in history.git.commits[history.git.heads[ref]]
        for ref in history.git.heads
        for name in ([rule.file_name] if rule.file_name else MANY)
    )
    if missing:
        yield "file_missing" if rule.on_missing_file == "fail" else "no_files"
    if rule.dry_run and not place.poisoned:
        yield "dry_run_complete"
    if rule.prune.enabled or rule.sync_mode is SyncMode.LIVE_STATE or _whole(history):
        yield "prune_guard"
    if any(each.name == "extra" for each in history.rules) or _orphans(history):
        yield "ownership_conflict"
    if not rule.file_name:
        yield "key_conflict"
    if _whole(history):
        yield "unowned_destination"


def _whole(history: History) -> bool:
    return history.layout in (Layout.DOCUMENT, Layout.FILE)


def _orphans(history: History) -> bool:
    names = {rule.name for rule in history.rules}
    return LedgerTarget.objects.exclude(rule_id__in=names).exists()


def _check_values(history: History, place: Place, head: str) -> None:
    unit = LedgerTarget.objects.get(
        rule_id=place.rule.name, env=place.env, destination=place.destination
    )
    assert unit.commit == head, f"{unit} is at {unit.commit}, the head is {head}"
    files = (place.rule.file_name,) if place.rule.file_name else MANY
    live = _live(history, place.destination, files)
    wanted = place.values or {}
    wrong = {key: live.get(key) for key, text in wanted.items() if live.get(key) != text}
    if not place.rule.self_heal:
        wrong = {k: v for k, v in wrong.items() if (place.destination, k) not in history.touched}
    assert not wrong, f"{place.destination}: {wrong} instead of {wanted}"
    ledger = ledgers.get(unit.id)
    if ledger and place.rule.prune.enabled and not place.rule.prune.dry_run:
        guarded = protected_keys(ledger.retained.keys(), place.rule.prune.protection)
        extra = ledger.retained.keys() - guarded
        assert not extra, f"{extra} should have been pruned"


def _live(history: History, destination: str, files: tuple[str, ...] = ()) -> dict[str, str]:
    """Where each file has a record, `files` may name the same keys as others."""
    records = history.sink._place(history.place(destination)).records
    return {
        key: text
        for name, record in records.items()
        if (destination, name) not in history.theirs
        and (not files or history.layout is not Layout.FILE or name in files)
        for key, text in record.values.items()
    }


def _ours(history: History, destination: str) -> set[tuple[str, str]]:
    known = ledgers.at_destination(history.place(destination).id)
    return {(entry.record, key) for ledger in known for key, entry in ledger.owned_keys().items()}


def _check_leftovers(history: History) -> None:
    """What is live is of a ledger, or somebody else has touched it."""
    names = {unit.destination for unit in LedgerTarget.objects.all()}
    for destination in names:
        known = {key for _record, key in _ours(history, destination)}
        left = {
            key
            for key in _live(history, destination).keys() - known
            if (destination, key) not in history.touched
        }
        assert not left, f"{left} of {destination} are nobody's"
