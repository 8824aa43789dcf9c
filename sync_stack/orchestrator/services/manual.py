"""What operators ask for: syncs now, approved prunes, orphans."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from sync_stack.core.bundle.model import Bundle
from sync_stack.core.bundle.rules import Rule
from sync_stack.core.events import Event
from sync_stack.core.globs import is_literal
from sync_stack.core.tasks import Kind, State
from sync_stack.orchestrator.models import LedgerUnit, Task
from sync_stack.orchestrator.selectors import ledgers, tasks
from sync_stack.orchestrator.services import ledger_records
from sync_stack.orchestrator.services.create import NewTask, create_task
from sync_stack.orchestrator.services.execution.attempt import Ports
from sync_stack.orchestrator.services.execution.ref_state import git_source
from sync_stack.orchestrator.services.execution.targets import is_for, is_orphan
from sync_stack.orchestrator.services.execution.task_runner import execute
from sync_stack.orchestrator.services.trigger import trigger_ref
from sync_stack.repositories import Remote

PATIENCE_S: Final = 120.0
_LOOK_S: Final = 0.5
AskRemote = Callable[[Rule, str], Remote]


class NothingToSync(Exception):
    """No such rule, no unit and no literal repository, or no such task; the message says which."""


def trigger_manual(
    bundle: Bundle, name: str, ask: AskRemote, *, repo: str = "", env: str = "", **extra: Any
) -> list[Task]:
    """A task for each ref; the wake sweep publishes them. Raises NothingToSync, GitError."""
    rule = next((rule for rule in bundle.rules if rule.name == name), None)
    if rule is None:
        known = ", ".join(sorted(rule.name for rule in bundle.rules))
        raise NothingToSync(f"no rule {name!r} (known: {known})")
    refs = dict.fromkeys(_refs(rule, ask, repo, env))
    if not refs:
        raise NothingToSync(f"rule {name!r} has no unit there yet: name a repository with --repo")
    return [trigger_ref(Kind.MANUAL, bundle, rule, *pair, _nobody, **extra).task for pair in refs]


def remotes(ports: Ports) -> AskRemote:
    """Questions to the repositories of rules. They raise GitError and SecretError."""
    bundle = ports.bundle()

    def ask(rule: Rule, repo: str) -> Remote:
        source = git_source(bundle.platform(rule.platform), rule, repo, ports.resolve)
        return ports.repositories.ls_remote(source)

    return ask


def _nobody(_task_ids: Sequence[str]) -> None:
    """The orchestrator's sweep finds the task within seconds."""


def _refs(rule: Rule, ask: AskRemote, repo: str, env: str) -> Iterator[tuple[str, str]]:
    units = ledgers.list_units({"rule_id": rule.name}, after="", limit=10_000)
    for unit in units:
        if (not repo or unit.repo == repo) and (not env or unit.env == env) and unit.ref:
            yield unit.repo, unit.ref
    literal = [each for each in rule.repositories if is_literal(each)]
    for name in [repo] if repo else literal:
        if is_for(rule, name):
            yield from ((name, ref) for ref in _heads(rule, ask(rule, name), env))


def _heads(rule: Rule, remote: Remote, env: str) -> list[str]:
    """Mapped branches, or the default branch where the rule maps none."""
    mapped = [name for name, mapped_env in rule.branch_map.items() if env in ("", mapped_env)]
    names = mapped if rule.branch_map else [remote.head_branch]
    return [f"refs/heads/{name}" for name in names if f"refs/heads/{name}" in remote.refs]


def approve_prune(bundle: Bundle, task_id: str) -> Task:
    """Repeat a task once with the guard waived for exactly the keys it listed."""
    task = tasks.get(task_id)
    if task is None or task.state != State.FAILED:
        raise NothingToSync(f"task {task_id!r} is unknown or did not fail")
    targets = task.result.get("targets", [])
    stopped = [t for t in targets if (t.get("error") or {}).get("code") == "prune_guard"]
    keys = {
        f"{target['destination_id']}:{target['env']}": target["would_prune"] for target in stopped
    }
    if not any(keys.values()):
        raise NothingToSync(f"no prune guard has stopped task {task_id!r}")
    new = NewTask(
        kind=Kind.MANUAL,
        idempotency_key=f"approve:{task.id}:{uuid.uuid4()}",
        platform=task.platform,
        segment=task.datasource,
        events=[Event.from_dict(event) for event in task.request["events"]],
        rules=sorted({target["rule_id"] for target in stopped}),
        tenant=task.tenant,
        bundle_digest=bundle.digest,
        approved_by=task.id,
        request={"approved": keys},
    )
    return create_task(new, _nobody).task


def carry_out(task: Task, ports: Ports) -> Task:
    """The task as it ended, here or in a worker that was faster; after two minutes as it is."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        execute(task.id, ports)
        found = tasks.get(task.id) or task
        if found.finished_at or time.monotonic() > deadline:
            return found
        time.sleep(_LOOK_S)


def orphans(ports: Ports) -> list[LedgerUnit]:
    """Units that no rule yields any more. Raises SinkError, SecretError."""
    bundle = ports.bundle()
    units = ledgers.list_units({}, after="", limit=100_000)
    return [unit for unit in units if is_orphan(bundle, unit, ports.open_sink)]


def release_orphan(unit: LedgerUnit) -> bool:
    """Forget a unit; what it wrote stays where it is."""
    return ledger_records.forget(unit.id, unit.version)


def trigger_purge(bundle: Bundle, unit: LedgerUnit) -> Task:
    """A task that deletes what an orphan owns, and then forgets it. Raises TooManyTasks."""
    new = NewTask(
        kind=Kind.MANUAL,
        idempotency_key=f"purge:{unit.id}:{uuid.uuid4()}",
        platform=unit.platform,
        segment=unit.datasource,
        rules=[unit.rule_id],
        tenant=unit.tenant,
        bundle_digest=bundle.digest,
        max_attempts=1,
        request={"purge": unit.id},
    )
    return create_task(new, _nobody).task
