"""Reads of what is behind: targets that do not hold the head of their ref, and refs without any.

A head that nothing has told yet, by a webhook or a reconcile, is not known here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from kernel import clock
from sync_stack.core.tasks import MESSAGES
from sync_stack.orchestrator.domain.identity import RecordedRef, RefName, branch_key
from sync_stack.orchestrator.domain.target_lag import STALE, TargetLag
from sync_stack.orchestrator.domain.task_documents import StoredError, TargetOutcome, TaskResult
from sync_stack.orchestrator.models import LedgerTarget, Task
from sync_stack.orchestrator.selectors import refs, task_refs
from sync_stack.orchestrator.selectors.task_refs import LiveTasks, TaskRef

MAX_UNAPPLIED: Final = 200
MAX_RECORDS: Final = 10_000
_LEFT: Final = ("skipped", "restored", "inconsistent")  # of a target, when another one failed


@dataclass(frozen=True, slots=True, kw_only=True)
class UnappliedRef:
    """A ref of which nothing was applied yet. `rule` is empty while no worker has looked."""

    rule: str
    repo: str
    ref: str
    datasource: str
    lag: TargetLag


@dataclass(frozen=True, slots=True, kw_only=True)
class UnappliedRefs:
    """The refs of a list; `is_cut`: there may be more of them."""

    refs: Sequence[UnappliedRef]
    is_cut: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetLags:
    """Target → why it is behind; `is_cut`: more tasks wait than were read, perhaps for others."""

    by_target: Mapping[str, TargetLag]
    is_cut: bool


@dataclass(slots=True, kw_only=True)
class LagReader:
    """What the lags of one list are found with, read once."""

    live: Mapping[tuple[str, str], Sequence[TaskRef]]  # by repository and ref
    records: Mapping[str, RecordedRef]
    named: Mapping[str, Task]
    failures: Sequence[TaskRef] = ()  # that made targets stale, newest first

    def target_lag(self, target: LedgerTarget) -> TargetLag | None:
        """Return why a target is behind; None if it holds the head that is known."""
        name = RefName(rule=target.rule_id, repo=target.repo, ref=target.ref)
        record = self.records.get(name.hash)
        segment = record.datasource if record else target.datasource
        base = TargetLag(
            rule=target.rule_id,
            repo=target.repo,
            datasource=target.datasource,
            state=STALE,
            since=target.stale_since,
        )
        found = [
            _lag_of_live(base, sync)
            for sync in self.live.get((target.repo, target.ref), ())
            if sync.is_for(target.rule_id, target.platform, segment)
            and self._brings_more(sync, record, target)
        ]
        if record and (failed := self._lag_of_record(base, record, target)):
            found.append(failed)
        if target.stale_since:
            found.append(self._lag_of_stale(base, target, segment))
        return _first_with_earliest_time(found)

    def _brings_more(self, sync: TaskRef, record: RecordedRef | None, target: LedgerTarget) -> bool:
        """Return whether a task may bring more than a target holds.

        A task of `sync trigger` or a reconcile looks for a head: nothing more is known while the
        target holds the last one and no attempt has failed.
        """
        if sync.names_head or sync.task.error or record is None or record.observed is None:
            return sync.commit != target.commit
        observed = record.observed
        return observed.commit != target.commit or observed.task_id in self.named

    def unapplied_lag(self, record: RecordedRef) -> TargetLag | None:
        """Return why nothing of a ref was applied; None if there was nothing to apply."""
        name = record.name
        base = TargetLag(
            rule=name.rule, repo=name.repo, datasource=record.datasource, state=STALE, since=""
        )
        found = [
            _lag_of_live(base, sync)
            for sync in self.live.get((name.repo, name.ref), ())
            if sync.is_for(name.rule, record.platform, record.datasource)
        ]
        if failed := self._lag_of_record(base, record, None):
            found.append(failed)
        return _first_with_earliest_time(found)

    def _lag_of_record(
        self, base: TargetLag, record: RecordedRef, target: LedgerTarget | None
    ) -> TargetLag | None:
        """Return the lag after a task that handled the ref last and failed at this target."""
        observed = record.observed
        task = self.named.get(observed.task_id) if observed else None
        if observed is None or task is None:
            return None
        error = _error_at(
            TaskResult.of(task.result).targets,
            record.name,
            target.id if target else "",
            holds_head=target is not None and observed.commit == target.commit,
        )
        if error is None:
            return None
        return replace(_lag_of_task(base, task, error), commit=observed.commit)

    def _lag_of_stale(self, base: TargetLag, target: LedgerTarget, segment: str) -> TargetLag:
        """Return the lag of a stale target, with the newest failure that kept Git from it."""
        detail = "Git could not be read, or the head of the ref could not be parsed"
        for failed in self.failures:
            if failed.is_for(target.rule_id, target.platform, segment) and failed.has_staled(
                target
            ):
                error = StoredError.of(failed.task.error)
                return replace(
                    base,
                    task_id=failed.task.id,
                    code=error.code,
                    detail=error.detail,
                    file=error.file,
                    line=error.line,
                )
        return replace(base, detail=detail)


def list_lags(targets: Sequence[LedgerTarget]) -> TargetLags:
    """Return target → why it is behind, for those that are."""
    names = {RefName(rule=row.rule_id, repo=row.repo, ref=row.ref).hash for row in targets}
    records = {record.name.hash: record for record in refs.list_observed_of(names)}
    live = task_refs.list_live_of(_branch_keys(targets, records))
    reader = LagReader(
        live=live.of_ref,
        records=records,
        named=_failed_tasks(records.values()),
        failures=task_refs.list_failures(targets),
    )
    found = {target.id: reader.target_lag(target) for target in targets}
    by_target = {target_id: lag for target_id, lag in found.items() if lag}
    return TargetLags(by_target=by_target, is_cut=live.is_cut)


def _branch_keys(targets: Sequence[LedgerTarget], records: Mapping[str, RecordedRef]) -> set[str]:
    """Return the keys of the tasks that may bring something to targets."""
    keys = set()
    for target in targets:
        record = records.get(RefName(rule=target.rule_id, repo=target.repo, ref=target.ref).hash)
        segment = record.datasource if record else target.datasource
        for rules in ((), (target.rule_id,)):
            keys.add(branch_key(target.platform, segment, target.repo, target.ref, rules))
    return keys


def list_unapplied(where: Mapping[str, str]) -> UnappliedRefs:
    """Return refs of which nothing was applied though something should be, at most 200.

    `where` filters by `rule_id` and `repo`.
    """
    live = task_refs.list_live()
    records = refs.list_observed(where, limit=MAX_RECORDS + 1)
    is_cut = live.is_cut or len(records) > MAX_RECORDS
    waiting = [record for record in records[:MAX_RECORDS] if _has_cause(record, live)]
    repos = {record.name.repo for record in waiting} | {repo for repo, _ in live.of_ref}
    applied = refs.list_applied(repos, where)
    waiting = [record for record in waiting if record.name not in applied]
    reader = LagReader(
        live=live.of_ref,
        records={record.name.hash: record for record in waiting},
        named=_failed_tasks(waiting),
    )
    found = [
        UnappliedRef(
            rule=record.name.rule,
            repo=record.name.repo,
            ref=record.name.ref,
            datasource=record.datasource,
            lag=lag,
        )
        for record in waiting
        if (lag := reader.unapplied_lag(record))
    ]
    known = {(name.repo, name.ref) for name in applied}
    known |= {(record.name.repo, record.name.ref) for record in records}
    found += _refs_of_first_tasks(live.of_ref, known, where)
    return UnappliedRefs(refs=found[:MAX_UNAPPLIED], is_cut=is_cut or len(found) > MAX_UNAPPLIED)


def _has_cause(record: RecordedRef, live: LiveTasks) -> bool:
    """Return whether a task waits for a ref, or did not end well there."""
    is_well = record.observed is not None and record.observed.outcome in MESSAGES
    return not is_well or (record.name.repo, record.name.ref) in live.of_ref


def _failed_tasks(records: Iterable[RecordedRef]) -> dict[str, Task]:
    return task_refs.failed_tasks({each.observed.task_id for each in records if each.observed})


def _refs_of_first_tasks(
    live: Mapping[tuple[str, str], Sequence[TaskRef]],
    known: set[tuple[str, str]],
    where: Mapping[str, str],
) -> list[UnappliedRef]:
    """Return the refs of tasks that no worker has ended, with the oldest task of each.

    Of a webhook only the worker finds the rules: it is of none that `where` may name.
    """
    rule, repo = where.get("rule_id", ""), where.get("repo", "")
    found = []
    for place, syncs in live.items():
        wanted = [sync for sync in syncs if not rule or rule in sync.rules]
        if place in known or not wanted or repo not in ("", place[0]):
            continue
        first = wanted[0]
        of_rule = rule or (first.rules[0] if len(first.rules) == 1 else "")
        datasource = first.task.datasource
        base = TargetLag(
            rule=of_rule, repo=first.repo, datasource=datasource, state=STALE, since=""
        )
        found.append(
            UnappliedRef(
                rule=of_rule,
                repo=first.repo,
                ref=first.ref,
                datasource=datasource,
                lag=_lag_of_live(base, first),
            )
        )
    return found


def _lag_of_live(base: TargetLag, sync: TaskRef) -> TargetLag:
    error = StoredError.of(sync.task.error) if sync.task.error else None
    return replace(_lag_of_task(base, sync.task, error), commit=sync.commit)


def _lag_of_task(base: TargetLag, task: Task, error: StoredError | None) -> TargetLag:
    lag = replace(
        base,
        state=str(task.state).lower(),
        since=clock.rfc3339(task.created_at),
        task_id=task.id,
    )
    if error is None:
        return lag
    return replace(lag, code=error.code, detail=error.detail, file=error.file, line=error.line)


def _error_at(
    outcomes: Iterable[TargetOutcome], name: RefName, target_id: str, *, holds_head: bool
) -> StoredError | None:
    """Return the error at a target, else that of its rule sync; None if the target is well.

    A rule sync that fails at one target leaves the others as they were: they are well only if they
    held the head before.
    """
    of_ref = [
        outcome
        for outcome in outcomes
        if (outcome.rule_id, outcome.repo, outcome.ref) == (name.rule, name.repo, name.ref)
    ]
    own = next((outcome for outcome in of_ref if outcome.unit_id == target_id), None)
    if not target_id:
        causes = of_ref
    elif own is None:
        causes = [outcome for outcome in of_ref if not outcome.destination_id]
    elif own.error or (own.outcome in _LEFT and not holds_head):
        causes = [own, *of_ref]
    else:
        causes = []
    return next((outcome.error for outcome in causes if outcome.error), None)


def _first_with_earliest_time(found: Sequence[TargetLag]) -> TargetLag | None:
    """Return the first, which is behind since the earliest time of all; None without any."""
    if not found:
        return None
    return replace(found[0], since=min((lag.since for lag in found if lag.since), default=""))
