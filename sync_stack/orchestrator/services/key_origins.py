"""The origin of a live key: its target, its commit and author, its task and delivery."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from sync_stack.configuration.secrets import SecretError
from sync_stack.core.bundle.rules import Rule
from sync_stack.core.file_errors import ShapingError
from sync_stack.core.formats import detect
from sync_stack.core.ledger import Ledger, LedgerKey, TargetState, digest
from sync_stack.core.shaping.model import ShapingRules, SourceFile
from sync_stack.core.shaping.pipeline import shape
from sync_stack.core.shaping.secrets import SecretRules
from sync_stack.core.sink import Owner, Sink, SinkError
from sync_stack.core.tasks import State as TaskState
from sync_stack.core.tasks import TaskKind
from sync_stack.orchestrator import derived_keys
from sync_stack.orchestrator.domain.task_documents import TaskResult
from sync_stack.orchestrator.models import LedgerTarget, Task
from sync_stack.orchestrator.selectors import ledgers, tasks
from sync_stack.orchestrator.services.execution.attempt import Ports
from sync_stack.orchestrator.services.execution.ref_state import git_source
from sync_stack.repositories import GitError, RepositorySource, Signature

_MAX_TARGETS = 10_000
_MAX_TASKS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyOrigin:
    """One key of one target, as it was applied.

    `live`: in_sync, changed, missing, or unknown when the datasource cannot be read. `applied` is
    the commit that the content was read from, `changed` the one that last changed the key's line;
    each is None if Git does not know it. `line` is 0 if it is unknown. `healed_by`: the heal that
    put the content back last, if one has since the task that brought it.
    """

    target: LedgerTarget
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
class _OwnedKey:
    """A key that a target owns; `sink` is None if it cannot be opened."""

    ports: Ports
    target: LedgerTarget
    ledger: Ledger
    applied: TargetState
    key: str
    entry: LedgerKey
    sink: Sink | None
    rule: Rule | None


def origins(ports: Ports, key: str, where: Mapping[str, Any]) -> list[KeyOrigin]:
    """Return the origin of the key in every target that owns it. Raises the store's errors only."""
    targets = ledgers.list_targets(where, after="", limit=_MAX_TARGETS)
    return [_origin(owned) for target in targets if (owned := _owned_key(ports, target, key))]


def _owned_key(ports: Ports, target: LedgerTarget, key: str) -> _OwnedKey | None:
    ledger = ledgers.get(target.id)
    if ledger is None or ledger.applied is None or key not in ledger.applied.keys:
        return None
    return _OwnedKey(
        ports=ports,
        target=target,
        ledger=ledger,
        applied=ledger.applied,
        key=key,
        entry=ledger.applied.keys[key],
        sink=_sink(ports, ledger),
        rule=ports.bundle().find_rule(ledger.rule_id),
    )


def _sink(ports: Ports, ledger: Ledger) -> Sink | None:
    try:
        return ports.open_sink(ports.bundle().datasource(ledger.datasource))
    except (KeyError, SinkError, SecretError):
        return None


def _origin(owned: _OwnedKey) -> KeyOrigin:
    task = _writing_task(owned)
    healed = task is not None and task.id != owned.applied.task_id
    known = KeyOrigin(
        target=owned.target,
        key=owned.key,
        entry=owned.entry,
        live=_live(owned),
        task_id=task.id if task else owned.applied.task_id,
        delivery_id=task.delivery_id if task else "",
        healed_by=owned.applied.task_id if healed else "",
    )
    try:
        return _with_history(known, owned)
    except (GitError, SecretError) as error:
        return replace(known, problem=str(error))
    except KeyError:
        platform = owned.ledger.platform
        return replace(known, problem=f"the bundle has no platform {platform!r}")


def _writing_task(owned: _OwnedKey) -> Task | None:
    """Return the task that wrote the applied commit, not a heal; None if it was deleted."""
    task = tasks.get(owned.applied.task_id)
    if task is None or task.kind != TaskKind.HEAL:
        return task
    ledger = owned.ledger
    facets = [f"rule:{ledger.rule_id}\n", f"repo:{ledger.repo}\n", f"env:{ledger.env}\n"]
    done = {"state": TaskState.SUCCEEDED}
    earlier = tasks.list_tasks(done, facets, before=task.id, limit=_MAX_TASKS)
    return next((each for each in earlier if _has_written(each, owned)), None)


def _has_written(task: Task, owned: _OwnedKey) -> bool:
    return task.kind != TaskKind.HEAL and any(
        target.unit_id == owned.target.id
        and target.committed
        and target.commit == owned.applied.commit
        for target in TaskResult.of(task.result).targets
    )


def _live(owned: _OwnedKey) -> str:
    """Compare the live value with the applied one; it is not shown."""
    ledger, record = owned.ledger, owned.entry.record
    digest_key = derived_keys.digest_key_of(ledger.digest_key_id)
    if owned.sink is None or digest_key is None:
        return "unknown"
    former = ledger.former_rules
    owner = Owner(rule=ledger.rule_id, repo=ledger.repo, env=ledger.env, former_rules=former)
    try:
        live = owned.sink.read(ledgers.destination_of(owned.target), owner, [record])
    except SinkError:
        return "unknown"
    if record in live.mistyped:
        return "changed"
    found = live.records.get(record)
    if found is None or owned.key not in found.values:
        return "missing"
    same = digest(digest_key, found.values[owned.key]) == owned.entry.digest
    return "in_sync" if same else "changed"


def _with_history(known: KeyOrigin, owned: _OwnedKey) -> KeyOrigin:
    """Return the origin with commits and line from Git. Raises GitError, SecretError, KeyError."""
    ports, applied = owned.ports, owned.applied
    platform = ports.bundle().platform(owned.ledger.platform)
    source = git_source(platform, owned.rule, owned.ledger.repo, ports.resolve)
    repositories = ports.repositories
    repositories.fetch(source, applied.commit, ref=applied.ref)
    signed = repositories.read_signature(source, applied.commit)
    line = _line(owned, source)
    if not line:
        return replace(known, applied=signed)
    file = owned.entry.file
    origin = repositories.origin_of_line(source, applied.commit, file, line, ref=applied.ref)
    changed = repositories.read_signature(source, origin)
    return replace(known, applied=signed, line=line, changed=changed)


def _line(owned: _OwnedKey, source: RepositorySource) -> int:
    """Return the line of the key in its file; 0 if the current rule does not find it there."""
    rule, file = owned.rule, owned.entry.file
    if rule is None or owned.sink is None:
        return 0
    limit = rule.max_file_bytes
    content = owned.ports.repositories.read(source, owned.applied.commit, file, max_bytes=limit)
    rules = ShapingRules.of_rule(
        rule,
        environment=owned.ledger.env,
        key_format=owned.sink.capabilities.key_formats[0],
        secrets=SecretRules(manager="unasked"),
    )
    try:
        tree = detect(file, file_format=rule.file_format).parse(content or b"", file=file)
        shaped = shape([SourceFile(file=file, tree=tree)], rules)
    except ShapingError:
        return 0
    lines = {name.lower(): found.line for name, found in shaped.keys.items()}
    return lines.get(owned.key.lower(), 0)
