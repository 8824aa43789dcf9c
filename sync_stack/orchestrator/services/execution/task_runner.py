"""Run a task: claim it, run its rule syncs, and end it (reference: sync-stack 4.8, 4.10)."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Collection, Sequence
from datetime import timedelta
from typing import Final

from django.db import Error as StoreError
from django.db import InterfaceError, OperationalError, close_old_connections

from kernel import clock, telemetry
from sync_stack.core.events import EventKind
from sync_stack.core.tasks import (
    Change,
    State,
    TaskError,
    TaskKind,
    Tries,
    advance,
    backoff_s,
    judge,
    most_significant,
)
from sync_stack.orchestrator.domain.identity import Claim
from sync_stack.orchestrator.domain.task_documents import (
    TargetOutcome,
    TaskMemory,
    TaskRequest,
    TaskResult,
)
from sync_stack.orchestrator.models import Task
from sync_stack.orchestrator.selectors import ledgers, tasks
from sync_stack.orchestrator.services import counters, destination_locks, task_transitions
from sync_stack.orchestrator.services.destination_locks import DestinationLocked
from sync_stack.orchestrator.services.execution import results
from sync_stack.orchestrator.services.execution.attempt import (
    Attempt,
    Heartbeat,
    LostTask,
    Ports,
    RuleSync,
    StageTiming,
    Stopping,
)
from sync_stack.orchestrator.services.execution.results import KNOWN_ERRORS, task_error
from sync_stack.orchestrator.services.execution.rule_scope import purge_sync_of, rule_syncs_of
from sync_stack.orchestrator.services.execution.rule_sync import (
    RuleSyncFailed,
    run_heal,
    run_purge,
    run_rule_sync,
)
from sync_stack.orchestrator.services.execution.schema_registry import refresh_schemas
from sync_stack.orchestrator.services.ledger_records import commit_intent, has_committed
from sync_stack.orchestrator.services.ref_records import mark_failure, mark_success, record_refs

log: Final = logging.getLogger(__name__)
_AWAY: Final = (OperationalError, InterfaceError)
_CLAIM_PAUSES_S: Final = (0.1, 0.5, 1.0, 2.0)
_ASK_AGAIN_S: Final = 0.2
_AGAIN_S: Final = 0.25  # the base of the pause before another attempt


def run_task(task_id: str, ports: Ports, *, stopping: Stopping | None = None) -> bool:
    """Make one attempt, from claim to end; return False if the task could not be claimed."""
    task, begun = _claim(task_id)
    if task is None:
        return False
    ports.task_changed([task.id])
    claim = Claim(task.id, task.attempt)
    with Heartbeat(claim, begun=begun, stopping=stopping) as heartbeat:
        attempt = Attempt(
            task=task,
            claim=claim,
            heartbeat=heartbeat,
            bundle=ports.bundle(),
            ports=ports,
            timing=StageTiming(task.traceparent),
        )
        try:
            with telemetry.spans_below(attempt.timing.span):
                _attempt(attempt)
        except LostTask:
            log.warning("task %s was lost at attempt %d", task.id, task.attempt)
        except StoreError as error:
            log.warning("task %s: the store failed: %s", task.id, type(error).__name__)
            if isinstance(error, _AWAY):
                _give_back(attempt, error, stopping)
    attempt.timing.record(task)
    ports.task_changed([task.id])
    return True


def _claim(task_id: str) -> tuple[Task | None, float]:
    """Claim a task, also from a store that is just restarting; the claim is the first heartbeat."""
    for pause_s in _CLAIM_PAUSES_S:
        begun = time.monotonic()
        try:
            return task_transitions.claim(task_id, clock.now()), begun
        except _AWAY as error:
            log.warning("task %s is not claimed yet: %s", task_id, type(error).__name__)
        close_old_connections()
        time.sleep(pause_s)
    begun = time.monotonic()
    return task_transitions.claim(task_id, clock.now()), begun


def _give_back(attempt: Attempt, error: StoreError, stopping: Stopping | None) -> None:
    """End an attempt that the store failed as soon as the store answers; it costs no attempt.

    Otherwise the orchestrator takes the worker for lost, 25 s later. What the attempt was about to
    store is not known, so its memory stays as it is: the next attempt goes by the intents.
    """
    task, jitter = attempt.task, attempt.ports.jitter()
    tries = Tries(attempt=task.attempt, max_attempts=task.max_attempts, base_s=_AGAIN_S)
    after_s = backoff_s(tries, jitter=jitter) if task.attempt > 1 else None
    failure = TaskError(
        "store_unavailable", type(error).__name__, uncounted=True, retry_after_s=after_s
    )
    verdict = judge(failure, tries, jitter=jitter)
    while True:
        close_old_connections()
        try:
            task_transitions.end(
                attempt.claim,
                verdict.change,
                error=failure.as_dict(),
                message="retrying",
                max_attempts=verdict.max_attempts,
                next_attempt_at=clock.now() + timedelta(seconds=verdict.delay_s),
                published_at=None,
            )
        except _AWAY:
            if stopping is not None and stopping.is_set():
                return
            time.sleep(_ASK_AGAIN_S)
        else:
            attempt.ports.publish([] if verdict.delay_s else [task.id])
            return


def _attempt(attempt: Attempt) -> None:
    """End the attempt in a write of the task row. Raises LostTask and errors of the store."""
    syncs: list[RuleSync] = []
    try:
        attempt.request = TaskRequest.of(attempt.task.request)
        memory = TaskMemory.of(attempt.task.memory)
        attempt.done, attempt.lags = dict(memory.done), memory.lags
        syncs = _parts(attempt)
        errors = _run_all(attempt, syncs)
    except (LostTask, StoreError):
        raise
    except Exception as error:
        errors = [task_error(error)]
        if errors[0].code == "internal_error":
            log.exception("task %s failed unexpectedly", attempt.task.id)
    if errors:
        _end_failed(attempt, syncs, errors)
    else:
        _end_done(attempt, syncs)


def _parts(attempt: Attempt) -> list[RuleSync]:
    """Return the rule syncs of the task. Raises TaskError(rule_removed) if a rule is gone."""
    task = attempt.task
    if task.kind == TaskKind.SCHEMA_REFRESH:
        refresh_schemas(attempt)
        return []
    if attempt.request.purge:
        return [sync] if (sync := purge_sync_of(attempt)) else []
    if not attempt.done:  # one that is done has read the ref before they came
        attempt.supersedable = tasks.supersedable(task.coalesce_key, than=task.id)
    syncs = rule_syncs_of(attempt.bundle, attempt.request, task.datasource)
    missing = set(attempt.request.rules) - {sync.rule.name for sync in syncs}
    if missing:
        raise TaskError("rule_removed", f"the bundle has no rule {', '.join(sorted(missing))}")
    return syncs


def _run_all(attempt: Attempt, syncs: list[RuleSync]) -> list[TaskError]:
    """Run each rule sync that has not ended, independently of the others; return the errors."""
    _finish_committed(attempt)
    errors = []
    for sync in syncs:
        known = attempt.done.get(sync.key)
        if known is None:
            error = _run(attempt, sync)
            errors += [error] if error else []
        elif known.error:
            errors.append(known.error.as_error())
    return errors


def _finish_committed(attempt: Attempt) -> None:
    """Commit intents of an earlier attempt that died after its commit (sync-stack 4.8, step 9)."""
    for ledger in ledgers.with_intent_of(attempt.task.id):
        if has_committed(attempt.done, ledger):
            commit_intent(ledger)
    released = destination_locks.release_earlier(attempt.claim)
    attempt.ports.publish(task_transitions.make_due(released, clock.now()))


def _run(attempt: Attempt, sync: RuleSync) -> TaskError | None:
    try:
        if attempt.request.purge:
            run_purge(attempt, sync)
        elif attempt.task.kind == TaskKind.HEAL:
            run_heal(attempt, sync)
        else:
            run_rule_sync(attempt, sync)
    except RuleSyncFailed as failure:
        return _store_failure(attempt, sync, failure.error, failure.targets)
    except KNOWN_ERRORS as error:
        return _store_failure(attempt, sync, task_error(error), [])
    if _leaves_records(attempt):
        mark_success(sync)
    return None


def _store_failure(
    attempt: Attempt, sync: RuleSync, error: TaskError, targets: Sequence[TargetOutcome]
) -> TaskError:
    """Store a failed outcome: a permanent one ends the rule sync, another one is only shown."""
    if error.code == "ref_lagging":
        attempt.lags += 1
    outcome = results.failed_outcome(sync, error, targets, attempt.heads.get(sync.key, ""))
    if not error.retryable:
        attempt.finish_rule_sync(sync, outcome)
    else:
        attempt.failing[sync.key] = outcome
        attempt.save_memory()
    mark_failure(sync, error)
    return error


def _end_done(attempt: Attempt, syncs: list[RuleSync]) -> None:
    task = attempt.task
    message = most_significant(outcome.message for outcome in attempt.done.values())
    if task.kind == TaskKind.SCHEMA_REFRESH:
        message = "schema_refreshed"
    if _leaves_records(attempt) and message != "superseded":
        record_refs(attempt, syncs, State.SUCCEEDED)
    result = TaskResult.of_outcomes(attempt.done.values())
    _end(attempt, Change.DONE, None, result, message=message)
    counters.count_keys(result.targets)
    from_pull_request = any(sync.event.kind is EventKind.PULL_REQUEST for sync in syncs)
    if attempt.supersedable and not from_pull_request:
        _supersede(attempt)


def _leaves_records(attempt: Attempt) -> bool:
    """Return whether the task records its refs; heals, purges and dry runs do not."""
    return attempt.follows_ref and not attempt.request.dry_run


def _end_failed(attempt: Attempt, syncs: list[RuleSync], errors: list[TaskError]) -> None:
    # A retryable error decides first, of these one that costs an attempt.
    error = min(errors, key=lambda error: (not error.retryable, error.uncounted))
    tries = Tries(
        attempt=attempt.task.attempt,
        max_attempts=attempt.task.max_attempts,
        base_s=max([sync.rule.retry_backoff_s for sync in syncs], default=2.0),
    )
    verdict = judge(error, tries, jitter=attempt.ports.jitter())
    state = advance(State.RUNNING, verdict.change)
    result = None
    columns: dict[str, object] = {"message": error.code, "max_attempts": verdict.max_attempts}
    if state is State.RETRYING:
        columns |= {
            "message": "retrying",
            "next_attempt_at": clock.now() + timedelta(seconds=verdict.delay_s),
            "published_at": None,
            "waiting_for": error.destination if isinstance(error, DestinationLocked) else "",
        }
    else:
        if _leaves_records(attempt):
            record_refs(attempt, syncs, state)
        result = TaskResult.of_outcomes((attempt.done | attempt.failing).values())
    _end(attempt, verdict.change, error, result, **columns)
    _log_failure(attempt.task, state, error)


def _end(
    attempt: Attempt,
    change: Change,
    error: TaskError | None,
    result: TaskResult | None,
    **columns: object,
) -> None:
    """End the attempt; no `result`: the task is tried again. Raises LostTask."""
    columns |= {
        "facets": results.facets_of(attempt.task.facets, result.targets if result else ()),
        "memory": attempt.memory(),
        "error": error.as_dict() if error else {},
    }
    if result:
        columns["result"] = result.as_json()
    if not task_transitions.end(attempt.claim, change, **columns):
        raise attempt.heartbeat.note_refusal()
    attempt.timing.state = advance(State.RUNNING, change)
    attempt.timing.error = error.code if error else ""
    counters.count_ended_tasks(attempt.task.kind, attempt.timing.state)


def _log_failure(task: Task, state: State, error: TaskError) -> None:
    if state is State.RETRYING:
        counters.count_retry(error.code)
        log.warning("task %s attempt %d: %s", task.id, task.attempt, error)
    else:
        counters.count_failure(error.code)
        log.error("task %s ended %s: %s", task.id, state, error)


def _supersede(attempt: Attempt) -> None:
    """End the tasks that waited when this one read the ref: it has synced the ref's head.

    Tasks about a commit after that head stay: the host shows it a moment later.
    """
    heads = set(attempt.heads.values())
    waiting = tasks.still_waiting(attempt.supersedable)
    lagging = [
        task
        for task in waiting
        if task.state == State.RETRYING and task.error.get("code") == "ref_lagging"
    ]
    outdated = tasks.outdated_tasks(attempt.task.coalesce_key, lagging, heads)
    ended = [
        task
        for task in waiting
        if _is_done(task, heads, outdated) and task_transitions.supersede(task, by=attempt.task.id)
    ]
    if not ended:
        return
    for kind, count in Counter(task.kind for task in ended).items():
        counters.count_ended_tasks(kind, State.SUCCEEDED, count)
    counters.count_superseded(len(ended))
    attempt.ports.task_changed([task.id for task in ended])


def _is_done(task: Task, heads: Collection[str], outdated: Collection[str]) -> bool:
    """Return whether a waiting task has nothing left to do.

    One that waits for a lagging host may be about a newer commit, unless it is one of
    `outdated`: its commit is no longer on the ref.
    """
    try:
        request = TaskRequest.of(task.request)
    except (ValueError, KeyError, TypeError) as error:  # the row of a newer release
        log.warning("the request of task %s cannot be read: %s", task.id, type(error).__name__)
        return False
    for event in request.events:
        is_newer = not event.commit or event.commit not in heads
        if event.before and event.before in heads and is_newer:
            return False
    if task.state == State.PENDING or task.error.get("code") == "destination_busy":
        return True
    return task.id in outdated
