"""Counters of all workers, stored in rows and exported by the API process.

(reference: sync-stack 4.12)
"""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from typing import Final

from django.db import Error as StoreError
from django.db.models import F

from sync_stack.orchestrator.domain.task_documents import TargetOutcome
from sync_stack.orchestrator.models import Counter

log: Final = logging.getLogger(__name__)
TASK_SECONDS: Final = "orch_task_duration_seconds"
STAGE_SECONDS: Final = "orch_stage_duration_seconds"
FETCH_SECONDS: Final = "orch_git_fetch_duration_seconds"
BUCKETS: Final = (
    *("0.01", "0.025", "0.05", "0.1", "0.25", "0.5", "1.0", "2.5", "5.0"),
    *("10.0", "30.0", "60.0", "300.0", "+Inf"),
)
_BOUNDS: Final = tuple(map(float, BUCKETS))


def count_ended_tasks(kind: str, state: str, count: int = 1) -> None:
    add("orch_tasks_total", float(count), kind=kind, state=state)


def count_retry(code: str) -> None:
    add("orch_task_retries_total", code=code)


def count_failure(code: str) -> None:
    add("orch_task_failures_total", code=code)


def count_superseded(count: int = 1) -> None:
    add("orch_superseded_total", float(count))


def count_keys(targets: Iterable[TargetOutcome]) -> None:
    """Count the keys that a successful task wrote and pruned, by datasource."""
    for target in targets:
        for name in ("written", "pruned"):
            if count := getattr(target, name):
                add(f"orch_keys_{name}_total", float(count), datasource=target.datasource)


def count_restore(outcome: str) -> None:
    add("orch_restores_total", outcome=outcome)


def count_fetch(seconds: float, *, ok: bool) -> None:
    """Count a Git fetch that reached the remote."""
    observe(FETCH_SECONDS, seconds, outcome="ok" if ok else "error")


def observe(name: str, seconds: float, **labels: str) -> None:
    """Count one observation of a histogram: a row for each bucket, not cumulative."""
    bucket = BUCKETS[bisect_left(_BOUNDS, seconds)]
    _raise(name, {**labels, "le": bucket}, value=1.0, seconds=max(0.0, seconds))


def add(name: str, amount: float = 1.0, **labels: str) -> None:
    """Raise a counter; a failed store loses this count only."""
    _raise(name, labels, value=amount)


def _raise(name: str, labels: Mapping[str, str], **amounts: float) -> None:
    key = "|".join([name, *(f"{label}={labels[label]}" for label in sorted(labels))])
    more = {column: F(column) + amount for column, amount in amounts.items()}
    try:
        rows = Counter.objects.filter(id=key)
        if not rows.update(**more) and not Counter(id=key, **amounts).insert():
            rows.update(**more)
    except StoreError as error:
        log.warning("%s was not counted: %s", name, type(error).__name__)


def list_all() -> list[Counter]:
    return list(Counter.objects.order_by("id"))
