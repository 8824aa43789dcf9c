"""Reconcile: compare branch heads with what was last handled (reference: sync-stack 4.1)."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from kernel import clock
from sync_stack.configuration.secrets import SecretError
from sync_stack.core.bundle.model import Bundle
from sync_stack.core.bundle.rules import Rule
from sync_stack.core.events import BadPayload
from sync_stack.core.globs import is_literal
from sync_stack.core.tasks import TaskKind
from sync_stack.orchestrator import conf
from sync_stack.orchestrator.domain import identity
from sync_stack.orchestrator.domain.identity import GONE, RecordedRef
from sync_stack.orchestrator.models import Task
from sync_stack.orchestrator.selectors import ledgers, refs, tasks
from sync_stack.orchestrator.services.execution.attempt import Ports
from sync_stack.orchestrator.services.execution.ref_state import git_source
from sync_stack.orchestrator.services.execution.rule_scope import is_for, rule_digest
from sync_stack.orchestrator.services.task_creation import TooManyTasks
from sync_stack.orchestrator.services.triggers import trigger_ref
from sync_stack.repositories import GitError, Remote

log: Final = logging.getLogger(__name__)
MAX_PAUSE_S: Final = 6 * 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconcilePass:
    """One pass over all refs: its bundle, and each remote, which is read once."""

    ports: Ports
    bundle: Bundle
    remotes: dict[tuple[str, str], Remote | None] = field(default_factory=dict)

    def remote(self, rule: Rule, repo: str) -> Remote | None:
        """Return the refs of a repository; None if it cannot be read now."""
        platform = self.bundle.platform(rule.platform)
        key = (platform.name, rule.repo_url or repo)
        if key not in self.remotes:
            try:
                source = git_source(platform, rule, repo, self.ports.resolve)
                self.remotes[key] = self.ports.repositories.ls_remote(source)
            except (GitError, SecretError) as error:
                log.warning("reconcile: %s cannot be read: %s", repo, error)
                self.remotes[key] = None
        return self.remotes[key]


def reconcile(ports: Ports) -> int:
    """Create a task for every ref that differs from its record; return how many."""
    current = ReconcilePass(ports=ports, bundle=ports.bundle())
    known = {record.name.hash: record for record in refs.list_all()}
    created = 0
    for record in known.values():
        created += _check_record(current, record)
    for rule, repo, ref in _unrecorded_branches(current, known):
        created += _trigger(current, rule, repo, ref, "unrecorded")
    return created


def _check_record(current: ReconcilePass, record: RecordedRef) -> int:
    rule = current.bundle.find_rule(record.name.rule)
    if rule is None or not is_for(rule, record.name.repo) or _pauses(record):
        return 0
    remote = current.remote(rule, record.name.repo)
    if remote is None:
        return 0
    head = remote.refs.get(record.name.ref, GONE)
    if not _is_due(current, rule, record, head):
        return 0
    # Not by the observed task: an attempt that is repeated may observe the same once more.
    text = f"{head}:{record.version}:{rule_digest(current.bundle, rule)}"
    return _trigger(current, rule, record.name.repo, record.name.ref, text)


def _is_due(current: ReconcilePass, rule: Rule, record: RecordedRef, head: str) -> bool:
    observed = record.observed
    if observed is None or observed.dead or observed.commit != head:
        return True
    intents = ledgers.intents_of_ref(rule.name, record.name.repo, record.name.ref)
    if intents and observed.rule_digest != rule_digest(current.bundle, rule):
        return True
    if rule.dry_run:
        return False  # a dry run restores no intent
    first = ledgers.tasks_of_first_intents(rule.name, record.name.repo, record.name.ref)
    of_intents = (tasks.get(task_id) for task_id in {*intents.values(), *first} if task_id)
    return any(task is None or task.finished_at is not None for task in of_intents)


def _pauses(record: RecordedRef) -> bool:
    """Return whether to wait: the pause doubles with each DEAD in a row, up to 6 h."""
    observed = record.observed
    if observed is None or not observed.dead:
        return False
    task: Task | None = tasks.get(observed.task_id)
    ended: datetime | None = task.finished_at if task else None
    pause = min(conf.reconcile_interval_s() * 2.0 ** (observed.dead - 1), MAX_PAUSE_S)
    return ended is not None and clock.now() < ended + timedelta(seconds=pause)


def _unrecorded_branches(
    current: ReconcilePass, known: dict[str, RecordedRef]
) -> Iterator[tuple[Rule, str, str]]:
    """Yield default and mapped branches without a record, of repositories named literally."""
    for rule in current.bundle.rules:
        for repo in rule.repositories:
            if not is_literal(repo) or not is_for(rule, repo):
                continue
            remote = current.remote(rule, repo)
            for ref in _expected_refs(rule, remote) if remote else ():
                name = identity.RefName(rule=rule.name, repo=repo, ref=ref)
                if name.hash not in known:
                    yield rule, repo, ref


def _expected_refs(rule: Rule, remote: Remote) -> list[str]:
    names = {remote.head_branch, *(name for name in rule.branch_map if is_literal(name))}
    return [f"refs/heads/{name}" for name in sorted(names) if f"refs/heads/{name}" in remote.refs]


def _key(rule: Rule, repo: str, ref: str, observed: str) -> str:
    text = "\n".join((rule.name, repo, ref, observed))
    return f"reconcile:{hashlib.sha256(text.encode()).hexdigest()}"


def _trigger(current: ReconcilePass, rule: Rule, repo: str, ref: str, observed: str) -> int:
    """Create one task for each `observed`: the idempotency key makes a second one a duplicate."""
    key = _key(rule, repo, ref, observed)
    while (earlier := tasks.newest_try(key)) is not None:
        if earlier.message != "rule_removed":
            return 0
        # the rule is back, and that task did nothing
        key = _key(rule, repo, ref, f"{observed}:{earlier.id}")
    publish = current.ports.publish
    try:
        created = trigger_ref(
            TaskKind.RECONCILE, current.bundle, rule, repo, ref, publish, idempotency_key=key
        )
    except (TooManyTasks, BadPayload) as error:
        log.warning("reconcile: no task for %s %s: %s", repo, ref, error)
        return 0
    return int(not created.duplicate)
