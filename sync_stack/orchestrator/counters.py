"""Counters of all workers, kept in the store and exported by the API process (contract 4.12)."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any, Final

from django.db import Error as StoreError
from django.db.models import F

from sync_stack.orchestrator.models import Counter
from sync_stack.orchestrator.rows.conditional import changed, inserted

log: Final = logging.getLogger(__name__)


def ended(kind: str, state: str) -> None:
    add("orch_tasks_total", kind=kind, state=state)


def retried(code: str) -> None:
    add("orch_task_retries_total", code=code)


def failed(code: str) -> None:
    add("orch_task_failures_total", code=code)


def superseded() -> None:
    add("orch_superseded_total")


def written(targets: Iterable[Mapping[str, Any]]) -> None:
    """Keys of a task that succeeded, by datasource."""
    for target in targets:
        for name in ("written", "pruned"):
            if count := target.get(name):
                add(f"orch_keys_{name}_total", float(count), datasource=target["datasource"])


def restored(outcome: str) -> None:
    add("orch_restores_total", outcome=outcome)


def add(name: str, amount: float = 1.0, **labels: str) -> None:
    """Count; a store that fails costs the count and nothing else."""
    key = "|".join([name, *(f"{label}={labels[label]}" for label in sorted(labels))])
    try:
        if not changed(Counter, {"id": key}, value=F("value") + amount) and not inserted(
            Counter(id=key, value=amount)
        ):
            changed(Counter, {"id": key}, value=F("value") + amount)
    except StoreError as error:
        log.warning("%s is not counted: %s", name, type(error).__name__)


def every() -> dict[str, float]:
    return dict(Counter.objects.order_by("id").values_list("id", "value"))
