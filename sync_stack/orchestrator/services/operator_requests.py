"""Requests of operators: syncs, approved prunes, orphans."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Final

from sync_stack.core.bundle.model import Bundle
from sync_stack.core.bundle.rules import Rule
from sync_stack.core.globs import is_literal
from sync_stack.core.tasks import State, TaskKind
from sync_stack.orchestrator.domain.identity import RefName
from sync_stack.orchestrator.domain.task_documents import TaskRequest, TaskResult
from sync_stack.orchestrator.models import LedgerTarget, Task
from sync_stack.orchestrator.selectors import ledgers, refs, tasks
from sync_stack.orchestrator.services import ledger_records
from sync_stack.orchestrator.services.execution.attempt import Ports
from sync_stack.orchestrator.services.execution.ref_state import git_source
from sync_stack.orchestrator.services.execution.rule_scope import (
    event_of_ref,
    is_for,
    is_orphan,
)
from sync_stack.orchestrator.services.execution.task_runner import run_task
from sync_stack.orchestrator.services.task_creation import NewTask, create_task
from sync_stack.orchestrator.services.triggers import trigger_ref
from sync_stack.repositories import Remote

TASK_WAIT_S: Final = 120.0
_POLL_INTERVAL_S: Final = 0.5


class NothingToSync(Exception):
    """The rule or task is unknown, or nothing of the rule can be synced; the message says which."""


def trigger_manual(
    ports: Ports, rule: Rule, *, repo: str = "", env: str = "", **extra: Any
) -> list[Task]:
    """Create a task for each ref of a rule, for the next sweep to publish.

    Raises NothingToSync, TooManyTasks, GitError, SecretError.
    """
    refs = dict.fromkeys(_refs(ports, rule, repo, env))
    if not refs:
        detail = f"rule {rule.name!r} has no such target yet: name a repository with --repo"
        raise NothingToSync(detail)
    trigger = partial(trigger_ref, TaskKind.MANUAL, ports.bundle(), rule)
    return [trigger(*pair, _publish_later, **extra).task for pair in refs]


def sync_again(target: LedgerTarget) -> Task:
    """Create a task that syncs the ref that a target was last applied from, by its rule.

    It needs no bundle: the worker that runs the task reads its own. Raises NothingToSync,
    TooManyTasks.
    """
    name = RefName(rule=target.rule_id, repo=target.repo, ref=target.ref)
    record = refs.find(name) if target.ref else None
    last = tasks.get(target.last_task_id) if target.last_task_id else None
    urls = [event.clone_url for event in TaskRequest.of(last.request).events] if last else []
    if record is None or not urls:
        raise NothingToSync("nothing was applied to this target yet")
    event = event_of_ref(name, record, platform=record.platform, clone_url=urls[0])
    new = NewTask(
        kind=TaskKind.MANUAL,
        idempotency_key=f"{TaskKind.MANUAL}:{uuid.uuid4()}",
        platform=record.platform,
        segment=record.datasource,
        request=TaskRequest(events=(event,), rules=(name.rule,)),
        tenant=target.tenant,
    )
    return create_task(new, _publish_later).task


def _publish_later(_task_ids: Sequence[str]) -> None:
    """Leave it to the orchestrator's sweep, which finds the task within seconds."""


def _refs(ports: Ports, rule: Rule, repo: str, env: str) -> Iterator[tuple[str, str]]:
    targets = ledgers.list_targets({"rule_id": rule.name}, after="", limit=10_000)
    for target in targets:
        if (not repo or target.repo == repo) and (not env or target.env == env) and target.ref:
            yield target.repo, target.ref
    literal = [each for each in rule.repositories if is_literal(each)]
    for name in [repo] if repo else literal:
        if is_for(rule, name):
            platform = ports.bundle().platform(rule.platform)
            source = git_source(platform, rule, name, ports.resolve)
            remote = ports.repositories.ls_remote(source)
            yield from ((name, ref) for ref in _heads(rule, remote, env))


def _heads(rule: Rule, remote: Remote, env: str) -> list[str]:
    """Return the mapped branches, or the default branch if the rule maps none."""
    mapped = [name for name, mapped_env in rule.branch_map.items() if env in ("", mapped_env)]
    names = mapped if rule.branch_map else [remote.head_branch]
    return [f"refs/heads/{name}" for name in names if f"refs/heads/{name}" in remote.refs]


def approve_prune(bundle: Bundle, task_id: str) -> Task:
    """Repeat a task once with the guard waived for exactly the keys that it listed."""
    task = tasks.get(task_id)
    if task is None or task.state != State.FAILED:
        raise NothingToSync(f"task {task_id!r} is unknown or did not fail")
    targets = TaskResult.of(task.result).targets
    stopped = [each for each in targets if each.error and each.error.code == "prune_guard"]
    keys = {f"{each.destination_id}:{each.env}": each.would_prune for each in stopped}
    if not any(keys.values()):
        raise NothingToSync(f"no prune guard stopped task {task_id!r}")
    new = NewTask(
        kind=TaskKind.MANUAL,
        idempotency_key=f"approve:{task.id}:{uuid.uuid4()}",
        platform=task.platform,
        segment=task.datasource,
        request=TaskRequest(
            events=TaskRequest.of(task.request).events,
            rules=tuple(sorted({target.rule_id for target in stopped})),
            approved=keys,
        ),
        tenant=task.tenant,
        bundle_digest=bundle.digest,
        approved_by=task.id,
    )
    return create_task(new, _publish_later).task


def run_here(task: Task, ports: Ports) -> Task:
    """Run a task here unless a worker does; return it when it has ended, or after two minutes."""
    deadline = time.monotonic() + TASK_WAIT_S
    while True:
        run_task(task.id, ports)
        found = tasks.get(task.id) or task
        if found.finished_at or time.monotonic() > deadline:
            return found
        time.sleep(_POLL_INTERVAL_S)


def orphans(ports: Ports) -> list[LedgerTarget]:
    """Return the targets that no rule produces any more. Raises SinkError, SecretError."""
    bundle = ports.bundle()
    targets = ledgers.list_targets({}, after="", limit=100_000)
    return [target for target in targets if is_orphan(bundle, target, ports.open_sink)]


def release_orphan(target: LedgerTarget) -> bool:
    """Delete the ledger of a target; what it wrote stays."""
    return ledger_records.delete(target.id, target.version)


def trigger_purge(bundle: Bundle, target: LedgerTarget) -> Task:
    """Create a task that deletes what an orphan owns, and its ledger. Raises TooManyTasks."""
    new = NewTask(
        kind=TaskKind.MANUAL,
        idempotency_key=f"purge:{target.id}:{uuid.uuid4()}",
        platform=target.platform,
        segment=target.datasource,
        request=TaskRequest(rules=(target.rule_id,), purge=target.id),
        tenant=target.tenant,
        bundle_digest=bundle.digest,
        max_attempts=1,
    )
    return create_task(new, _publish_later).task
