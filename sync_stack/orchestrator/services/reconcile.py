"""Reconcile: what webhooks did not tell is found by looking (reference: sync-stack 4.1)."""

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
from sync_stack.core.tasks import Kind
from sync_stack.orchestrator import conf
from sync_stack.orchestrator.domain import identity
from sync_stack.orchestrator.domain.identity import GONE, Record
from sync_stack.orchestrator.models import Task
from sync_stack.orchestrator.selectors import ledgers, refs, tasks
from sync_stack.orchestrator.services.create import TooManyTasks
from sync_stack.orchestrator.services.execution.attempt import Ports
from sync_stack.orchestrator.services.execution.ref_state import git_source, rule_digest
from sync_stack.orchestrator.services.execution.targets import is_for
from sync_stack.orchestrator.services.trigger import trigger_ref
from sync_stack.repositories import GitError, Remote

log: Final = logging.getLogger(__name__)
MAX_PAUSE_S: Final = 6 * 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconcilePass:
    """One sweep: the bundle it began with, and each remote asked once."""

    ports: Ports
    bundle: Bundle
    remotes: dict[tuple[str, str], Remote | None] = field(default_factory=dict)

    def remote(self, rule: Rule, repo: str) -> Remote | None:
        """None when it cannot be asked now."""
        platform = self.bundle.platform(rule.platform)
        key = (platform.name, rule.repo_url or repo)
        if key not in self.remotes:
            try:
                source = git_source(platform, rule, repo, self.ports.resolve)
                self.remotes[key] = self.ports.repositories.ls_remote(source)
            except (GitError, SecretError) as error:
                log.warning("reconcile: %s cannot be asked: %s", repo, error)
                self.remotes[key] = None
        return self.remotes[key]


def reconcile(ports: Ports) -> int:
    """Make a task for every ref that is not what was last seen of it; how many."""
    look = ReconcilePass(ports=ports, bundle=ports.bundle())
    known = {record.name.hash: record for record in refs.every()}
    made = 0
    for record in known.values():
        made += _look_at(look, record)
    for rule, repo, ref in _unrecorded(look, known):
        made += _trigger(look, rule, repo, ref, "unrecorded")
    return made


def _look_at(look: ReconcilePass, record: Record) -> int:
    rule = next((r for r in look.bundle.rules if r.name == record.name.rule), None)
    if rule is None or not is_for(rule, record.name.repo) or _pauses(record):
        return 0
    remote = look.remote(rule, record.name.repo)
    if remote is None:
        return 0
    head = remote.refs.get(record.name.ref, GONE)
    if not _is_due(look, rule, record, head):
        return 0
    seen = record.seen
    text = f"{head}:{seen.task_id if seen else ''}:{rule_digest(look.bundle, rule)}"
    return _trigger(look, rule, record.name.repo, record.name.ref, text)


def _is_due(look: ReconcilePass, rule: Rule, record: Record, head: str) -> bool:
    seen = record.seen
    if seen is None or seen.dead or seen.commit != head:
        return True
    units = ledgers.intents_of_ref(rule.name, record.name.repo, record.name.ref)
    if units and seen.rule_digest != rule_digest(look.bundle, rule):
        return True
    if rule.dry_run:
        return False  # what is half written stays so; with its end the digest is another one
    return any(_is_over(task_id) for task_id in units.values() if task_id)


def _is_over(task_id: str) -> bool:
    """An intent whose task will not come back to it."""
    task = tasks.get(task_id)
    return task is None or task.finished_at is not None


def _pauses(record: Record) -> bool:
    """The pause doubles with each DEAD in a row, up to 6 h; a FAILED of the same head stays."""
    seen = record.seen
    if seen is None or not seen.dead:
        return False
    task: Task | None = tasks.get(seen.task_id)
    ended: datetime | None = task.finished_at if task else None
    pause = min(conf.reconcile_interval_s() * 2.0 ** (seen.dead - 1), MAX_PAUSE_S)
    return ended is not None and clock.now() < ended + timedelta(seconds=pause)


def _unrecorded(look: ReconcilePass, known: dict[str, Record]) -> Iterator[tuple[Rule, str, str]]:
    """Default branches and mapped branches of repositories that rules name literally."""
    for rule in look.bundle.rules:
        for repo in rule.repositories:
            if not is_literal(repo) or not is_for(rule, repo):
                continue
            remote = look.remote(rule, repo)
            for ref in _expected(rule, remote) if remote else ():
                name = identity.RefName(rule=rule.name, repo=repo, ref=ref)
                if name.hash not in known:
                    yield rule, repo, ref


def _expected(rule: Rule, remote: Remote) -> list[str]:
    names = {remote.head_branch, *(name for name in rule.branch_map if is_literal(name))}
    return [f"refs/heads/{name}" for name in sorted(names) if f"refs/heads/{name}" in remote.refs]


def _key(rule: Rule, repo: str, ref: str, seen: str) -> str:
    text = "\n".join((rule.name, repo, ref, seen))
    return f"reconcile:{hashlib.sha256(text.encode()).hexdigest()}"


def _trigger(look: ReconcilePass, rule: Rule, repo: str, ref: str, seen: str) -> int:
    """One task per `seen`: the key makes a second one a duplicate."""
    key = _key(rule, repo, ref, seen)
    while (earlier := tasks.newest_try(key)) is not None:
        if earlier.message != "rule_removed":
            return 0
        # the rule is back, and that task had looked at nothing
        key = _key(rule, repo, ref, f"{seen}:{earlier.id}")
    publish = look.ports.publish
    try:
        made = trigger_ref(
            Kind.RECONCILE, look.bundle, rule, repo, ref, publish, idempotency_key=key
        )
    except (TooManyTasks, BadPayload) as error:
        log.warning("reconcile: no task for %s %s: %s", repo, ref, error)
        return 0
    return int(not made.duplicate)
