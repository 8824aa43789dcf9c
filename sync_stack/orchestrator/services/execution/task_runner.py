"""Run a task: claim it, run its rule syncs, and end it (reference: sync-stack 4.8, 4.10)."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Collection
from datetime import timedelta
from typing import Any, Final

from django.db import Error as StoreError

from kernel import clock
from sync_stack.core.events import EventKind
from sync_stack.core.tasks import (
    Change,
    Kind,
    State,
    TaskError,
    Tries,
    advance,
    judge,
    most_significant,
)
from sync_stack.orchestrator.domain.identity import Claim
from sync_stack.orchestrator.models import Task
from sync_stack.orchestrator.selectors import ledgers, tasks
from sync_stack.orchestrator.services import counters, destination_locks, task_transitions
from sync_stack.orchestrator.services.execution import results
from sync_stack.orchestrator.services.execution.apply import RuleSyncFailed
from sync_stack.orchestrator.services.execution.attempt import Attempt, Ports, RuleSync
from sync_stack.orchestrator.services.execution.heartbeat import Heartbeat, LostTask, Stopping
from sync_stack.orchestrator.services.execution.intents import commit_intent, has_committed
from sync_stack.orchestrator.services.execution.ref_state import (
    mark_failure,
    mark_success,
    record_refs,
)
from sync_stack.orchestrator.services.execution.results import KNOWN_ERRORS, task_error
from sync_stack.orchestrator.services.execution.rule_sync import (
    part_of_purge,
    parts_of,
    purge_part,
    run_rule_sync,
)
from sync_stack.orchestrator.services.execution.target_plan import refresh_schemas
from sync_stack.orchestrator.services.execution.targets import DestinationLocked

log: Final = logging.getLogger(__name__)


def supersede(attempt: Attempt) -> None:
    """End what waited when this task looked at its ref: it has brought the ref's head.

    Not those about what came after that head, which the host shows a moment later.
    """
    heads = set(attempt.heads.values())
    waiting = tasks.waiting(attempt.coalescing)
    outdated_tasks = tasks.outdated_tasks(attempt.task.coalesce_key, filter(_lags, waiting), heads)
    ended = [
        task
        for task in waiting
        if _is_done(task, heads, outdated_tasks)
        and task_transitions.coalesce(task, by=attempt.task.id)
    ]
    if not ended:
        return
    for kind, count in Counter(task.kind for task in ended).items():
        counters.ended(kind, State.SUCCEEDED, count)
    counters.superseded(len(ended))
    attempt.ports.copied([task.id for task in ended])


def _is_done(task: Task, heads: Collection[str], outdated_tasks: Collection[str]) -> bool:
    """What waits for a lagging host may be about a newer commit, whichever came first.

    `outdated_tasks`: those of them whose commit the ref has left.
    """
    if _goes_on_from(task, heads):
        return False
    if task.state == State.PENDING or task.error.get("code") == "destination_busy":
        return True
    return task.id in outdated_tasks


def _lags(task: Task) -> bool:
    return task.state == State.RETRYING and task.error.get("code") == "ref_lagging"


def _goes_on_from(task: Task, heads: Collection[str]) -> bool:
    events = task.request.get("events", ())
    return any(
        event.get("before") in heads and event.get("commit") not in heads for event in events
    )


def execute(task_id: str, ports: Ports, *, stopping: Stopping | None = None) -> bool:
    """One attempt, from claim to end; False when the task was not to be had."""
    begun = time.monotonic()  # the claim is the first beat
    task = task_transitions.claim(task_id, clock.now())
    if task is None:
        return False
    ports.copied([task.id])
    mine = Claim(task.id, task.attempt)
    with Heartbeat(mine, begun=begun, stopping=stopping) as beat:
        attempt = Attempt(
            task=task,
            mine=mine,
            beat=beat,
            bundle=ports.bundle(),
            ports=ports,
            done=dict(task.memory.get("done", {})),
            lags=int(task.memory.get("lags", 0)),
        )
        try:
            _attempt(attempt)
        except LostTask:
            log.warning("task %s was lost at attempt %d", task.id, task.attempt)
        except StoreError as error:
            log.warning("task %s: the store failed: %s", task.id, type(error).__name__)
    attempt.timing.tell(task)
    ports.copied([task.id])
    return True


def _attempt(attempt: Attempt) -> None:
    """Everything ends in a write on the task row, unless the task or the store is lost."""
    parts: list[RuleSync] = []
    try:
        parts = _parts(attempt)
        errors = _run_all(attempt, parts)
    except (LostTask, StoreError):
        raise
    except Exception as error:
        errors = [task_error(error)]
        if errors[0].code == "internal_error":
            log.exception("task %s failed unexpectedly", attempt.task.id)
    if errors:
        _end_failed(attempt, parts, errors)
    else:
        _end_done(attempt, parts)


def _parts(attempt: Attempt) -> list[RuleSync]:
    """What the task asks for. Raises TaskError(rule_removed) for a rule that is no more."""
    task = attempt.task
    if task.kind == Kind.SCHEMA_REFRESH:
        refresh_schemas(attempt)
        return []
    if "purge" in task.request:
        return [part] if (part := part_of_purge(attempt)) else []
    if not attempt.done:  # a part that is done looked at the ref before they came
        attempt.coalescing = tasks.coalescing(task.coalesce_key, than=task.id)
    parts = parts_of(attempt.bundle, task.request, task.datasource)
    missing = set(task.request.get("rules", ())) - {part.rule.name for part in parts}
    if missing:
        raise TaskError("rule_removed", f"no such rule any more: {', '.join(sorted(missing))}")
    return parts


def _run_all(attempt: Attempt, parts: list[RuleSync]) -> list[TaskError]:
    """Every part that is not done yet, independently of the others."""
    _finish_committed(attempt)
    errors = []
    for part in parts:
        known = attempt.done.get(part.key)
        if known is None:
            error = _run(attempt, part)
            errors += [error] if error else []
        elif known["error"]:
            errors.append(_again(known["error"]))
    return errors


def _finish_committed(attempt: Attempt) -> None:
    """An earlier attempt committed and died: only its ledgers are behind (4.8 step 9)."""
    memory = {"done": attempt.done}
    for ledger in ledgers.with_intent_of(attempt.task.id):
        if has_committed(memory, ledger):
            commit_intent(ledger)
    freed = destination_locks.release_earlier(attempt.mine)
    attempt.ports.publish(task_transitions.make_due(freed, clock.now()))


def _run(attempt: Attempt, part: RuleSync) -> TaskError | None:
    act = purge_part if "purge" in attempt.task.request else run_rule_sync
    try:
        act(attempt, part)
    except RuleSyncFailed as failure:
        return _failed(attempt, part, failure.error, failure.targets)
    except KNOWN_ERRORS as error:
        return _failed(attempt, part, task_error(error), [])
    if _leaves_records(attempt.task):
        mark_success(part)
    return None


def _failed(
    attempt: Attempt, part: RuleSync, error: TaskError, targets: list[dict[str, Any]]
) -> TaskError:
    """A permanent failure is as final as a success; one that may pass is remembered as shown."""
    if error.code == "ref_lagging":
        attempt.lags += 1
    if not targets:
        targets = [results.bare_target(part, error)]
    head = attempt.heads.get(part.key, "")
    outcome = results.outcome(error.code, targets=targets, error=error.as_dict(), commit=head)
    if not error.retryable:
        attempt.finish_part(part, outcome)
    else:
        attempt.failing[part.key] = outcome
        attempt.remember()
    mark_failure(part, error)
    return error


def _again(stored: dict[str, Any]) -> TaskError:
    """The permanent error of a part that an earlier attempt has ended."""
    places = {name: stored[name] for name in ("file", "line", "column") if name in stored}
    return TaskError(stored["code"], stored["detail"], **places)


def _end_done(attempt: Attempt, parts: list[RuleSync]) -> None:
    task = attempt.task
    message = most_significant(outcome["message"] for outcome in attempt.done.values())
    if task.kind == Kind.SCHEMA_REFRESH:
        message = "schema_refreshed"
    if _leaves_records(task) and message != "superseded":
        record_refs(attempt, parts, State.SUCCEEDED)
    result = results.result_of(attempt.done)
    _end(attempt, Change.DONE, {"message": message, "result": result, "error": {}})
    counters.written(result["targets"])
    if _coalesces(parts) and attempt.coalescing:
        supersede(attempt)


def _leaves_records(task: Task) -> bool:
    """Heals and purges look at no ref, and the plans of operators bring nothing."""
    return task.kind != Kind.HEAL and not task.request.keys() & {"dry_run", "purge"}


def _coalesces(parts: list[RuleSync]) -> bool:
    return all(part.event.kind is not EventKind.PULL_REQUEST for part in parts)


def _end_failed(attempt: Attempt, parts: list[RuleSync], errors: list[TaskError]) -> None:
    error = _weightiest(errors)
    tries = Tries(
        attempt=attempt.task.attempt,
        max_attempts=attempt.task.max_attempts,
        base_s=max([part.rule.retry_backoff_s for part in parts], default=2.0),
    )
    verdict = judge(error, tries, jitter=attempt.ports.jitter())
    state = advance(State.RUNNING, verdict.change)
    fields: dict[str, Any] = {"error": error.as_dict(), "max_attempts": verdict.max_attempts}
    if state is State.RETRYING:
        fields |= _waiting(error, verdict.delay_s)
    else:
        if _leaves_records(attempt.task):
            record_refs(attempt, parts, state)
        done = attempt.done | attempt.failing
        fields |= {"message": error.code, "result": results.result_of(done)}
    _end(attempt, verdict.change, fields)
    _tell(attempt.task, state, error)


def _waiting(error: TaskError, delay_s: float) -> dict[str, Any]:
    return {
        "message": "retrying",
        "next_attempt_at": clock.now() + timedelta(seconds=delay_s),
        "published_at": None,
        "waiting_for": error.destination if isinstance(error, DestinationLocked) else "",
    }


def _weightiest(errors: list[TaskError]) -> TaskError:
    """What may pass decides while it may; of those, what costs an attempt."""
    return min(errors, key=lambda error: (not error.retryable, error.uncounted))


def _end(attempt: Attempt, change: Change, fields: dict[str, Any]) -> None:
    memory = {"done": attempt.done, "lags": attempt.lags}
    fields["facets"] = results.facets_of(attempt.task.facets, fields.get("result", {}))
    if not task_transitions.end(attempt.mine, change, memory=memory, **fields):
        raise attempt.beat.refused()
    attempt.timing.state = advance(State.RUNNING, change)
    attempt.timing.error = fields.get("error", {}).get("code", "")
    counters.ended(attempt.task.kind, attempt.timing.state)


def _tell(task: Task, state: State, error: TaskError) -> None:
    if state is State.RETRYING:
        counters.retried(error.code)
        log.warning("task %s attempt %d: %s", task.id, task.attempt, error)
    else:
        counters.failed(error.code)
        log.error("task %s ended %s: %s", task.id, state, error)
