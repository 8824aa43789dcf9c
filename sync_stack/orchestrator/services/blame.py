"""Where a live key comes from: its unit, the commit and its author, the task and its delivery."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sync_stack.configuration.secrets import SecretError
from sync_stack.core.bundle.rules import Rule
from sync_stack.core.ledger import Ledger, LedgerKey, State, digest
from sync_stack.core.shaping import SecretRules, ShapingError, ShapingRules, SourceFile, shape
from sync_stack.core.sink import Owner, Sink, SinkError
from sync_stack.core.tasks import Kind
from sync_stack.core.tasks import State as TaskState
from sync_stack.formats import detect
from sync_stack.orchestrator import derived_keys
from sync_stack.orchestrator.models import LedgerUnit, Task
from sync_stack.orchestrator.selectors import ledgers, tasks
from sync_stack.orchestrator.services.execution.attempt import Ports
from sync_stack.orchestrator.services.execution.ref_state import git_source
from sync_stack.repositories import GitError, Signature, Source

_MOST_UNITS = 10_000
_MOST_TASKS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """One key of one unit, as it was applied.

    `live`: in_sync, changed, missing, or unknown when the datasource cannot be read. `applied` is
    the commit that the content was taken from, `changed` the one that last changed the key's line;
    each is None when Git cannot tell. `line` is 0 where it is not known. `healed_by`: the heal that
    put the content back last, if one has since the task that brought it.
    """

    unit: LedgerUnit
    key: str
    entry: LedgerKey
    live: str
    task_id: str
    delivery_id: str
    healed_by: str = ""
    line: int = 0
    applied: Signature | None = None
    changed: Signature | None = None
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Held:
    """A key that a unit holds, and what it takes to look at it; `sink` is None where none opens."""

    ports: Ports
    unit: LedgerUnit
    ledger: Ledger
    applied: State
    key: str
    entry: LedgerKey
    sink: Sink | None
    rule: Rule | None


def origins(ports: Ports, key: str, where: Mapping[str, Any]) -> list[Origin]:
    """Of every unit that holds the key. Raises the store's errors only."""
    units = ledgers.list_units(where, after="", limit=_MOST_UNITS)
    return [_origin(held) for unit in units if (held := _held(ports, unit, key))]


def _held(ports: Ports, unit: LedgerUnit, key: str) -> _Held | None:
    ledger = ledgers.get(unit.id)
    if ledger is None or ledger.applied is None or key not in ledger.applied.keys:
        return None
    rules = ports.bundle().rules
    return _Held(
        ports=ports,
        unit=unit,
        ledger=ledger,
        applied=ledger.applied,
        key=key,
        entry=ledger.applied.keys[key],
        sink=_sink(ports, ledger),
        rule=next((rule for rule in rules if rule.name == ledger.rule_id), None),
    )


def _sink(ports: Ports, ledger: Ledger) -> Sink | None:
    try:
        return ports.open_sink(ports.bundle().datasource(ledger.datasource))
    except (KeyError, SinkError, SecretError):
        return None


def _origin(held: _Held) -> Origin:
    task = _bringer(held)
    healed = task is not None and task.id != held.applied.task_id
    known: dict[str, Any] = {
        "unit": held.unit,
        "key": held.key,
        "entry": held.entry,
        "live": _live(held),
        "task_id": task.id if task else held.applied.task_id,
        "delivery_id": task.delivery_id if task else "",
        "healed_by": held.applied.task_id if healed else "",
    }
    try:
        return Origin(**known, **_history(held))
    except (GitError, SecretError) as error:
        return Origin(**known, problem=str(error))
    except KeyError:
        platform = held.ledger.platform
        return Origin(**known, problem=f"the bundle has no platform {platform!r} any more")


def _bringer(held: _Held) -> Task | None:
    """The task that brought the applied commit; a heal only put it back. None once it is purged."""
    task = tasks.get(held.applied.task_id)
    if task is None or task.kind != Kind.HEAL:
        return task
    ledger = held.ledger
    facets = [f"rule:{ledger.rule_id}\n", f"repo:{ledger.repo}\n", f"env:{ledger.env}\n"]
    done = {"state": TaskState.SUCCEEDED}
    earlier = tasks.list_tasks(done, facets, before=task.id, limit=_MOST_TASKS)
    return next((each for each in earlier if _brought(each, held)), None)


def _brought(task: Task, held: _Held) -> bool:
    return task.kind != Kind.HEAL and any(
        target["unit_id"] == held.unit.id
        and target["committed"]
        and target["commit"] == held.applied.commit
        for target in task.result.get("targets", ())
    )


def _live(held: _Held) -> str:
    """How the value stands; it is compared here and shown nowhere."""
    ledger, record = held.ledger, held.entry.record
    digest_key = derived_keys.digest_key_of(ledger.digest_key_id)
    if held.sink is None or digest_key is None:
        return "unknown"
    former = ledger.former_rules
    owner = Owner(rule=ledger.rule_id, repo=ledger.repo, env=ledger.env, former_rules=former)
    try:
        live = held.sink.read(ledgers.destination_of(held.unit), owner, [record])
    except SinkError:
        return "unknown"
    if record in live.mistyped:
        return "changed"
    found = live.records.get(record)
    if found is None or held.key not in found.values:
        return "missing"
    same = digest(digest_key, found.values[held.key]) == held.entry.digest
    return "in_sync" if same else "changed"


def _history(held: _Held) -> dict[str, Any]:
    """What Git tells. Raises GitError, SecretError, KeyError."""
    ports, applied = held.ports, held.applied
    platform = ports.bundle().platform(held.ledger.platform)
    source = git_source(platform, held.rule, held.ledger.repo, ports.resolve)
    repositories = ports.repositories
    repositories.fetch(source, applied.commit, ref=applied.ref)
    signed = repositories.signed(source, applied.commit)
    line = _line(held, source)
    if not line:
        return {"applied": signed}
    file = held.entry.file
    origin = repositories.origin_of_line(source, applied.commit, file, line, ref=applied.ref)
    return {"applied": signed, "line": line, "changed": repositories.signed(source, origin)}


def _line(held: _Held, source: Source) -> int:
    """Where the key stands in its file; 0 when today's rule does not find it there."""
    rule, file = held.rule, held.entry.file
    if rule is None or held.sink is None:
        return 0
    limit = rule.max_file_bytes
    content = held.ports.repositories.read(source, held.applied.commit, file, max_bytes=limit)
    rules = ShapingRules.of_rule(
        rule,
        environment=held.ledger.env,
        key_format=held.sink.capabilities.key_formats[0],
        secrets=SecretRules(manager="unasked"),
    )
    try:
        tree = detect(file, file_format=rule.file_format).parse(content or b"", file=file)
        shaped = shape([SourceFile(file=file, tree=tree)], rules)
    except ShapingError:
        return 0
    lines = {name.lower(): found.line for name, found in shaped.keys.items()}
    return lines.get(held.key.lower(), 0)
