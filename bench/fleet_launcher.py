"""`python -m bench.fleet_launcher`: launches runs on the fleet's store, and reads what they took.

{"launch": count, "aSecond": rate or 0} → {"seconds", "statuses": {status: count},
"steps": [[job id, ready at, leased at], …]}, in seconds of the epoch, once all runs are over.
"""

from __future__ import annotations

import importlib
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

import django

from bench.fleet_workers import BACKEND
from bench.stand import answer, questions

SUITE: Final = "eight"
LOOK_S: Final = 0.5
WITHIN_S: Final = 1800.0


def launch(count: int, a_second: float) -> dict[str, Any]:
    """Launch the runs at even intervals, or all at once if `a_second` is 0; wait for their ends."""
    models = importlib.import_module("apps.executions.models")
    executions = importlib.import_module("apps.executions.api")
    operator = importlib.import_module("apps.accounts.api").operator()
    request = executions.LaunchRequest(suite_id=SUITE, backend=BACKEND)
    began = time.time()
    ids = []
    for number in range(count):
        due = began + number / a_second if a_second else 0.0
        time.sleep(max(0.0, due - time.time()))
        ids.append(executions.launch(operator, request)["id"])
    runs = models.Execution.objects.filter(run_id__in=ids)
    _wait_over(runs)
    finished = max(runs.values_list("finished_at", flat=True)).timestamp()
    return {
        "seconds": finished - began,
        "statuses": Counter(runs.values_list("status", flat=True)),
        "steps": _steps(models, ids),
    }


def _wait_over(runs: Any) -> None:
    deadline = time.monotonic() + WITHIN_S
    while runs.exclude(status__in=("Healthy", "Failed", "Canceled")).exists():
        if time.monotonic() > deadline:
            raise TimeoutError(f"runs are not over within {WITHIN_S:g} s")
        time.sleep(LOOK_S)


def _steps(models: Any, ids: Sequence[str]) -> list[tuple[str, float, float]]:
    rows = models.Step.objects.filter(execution__run_id__in=ids, started_at__isnull=False)
    return [
        (job, ready.timestamp(), leased.timestamp())
        for job, ready, leased in rows.values_list("job_id", "queued_at", "started_at")
    ]


def main() -> None:
    django.setup()
    for question in questions():
        answer(**launch(question["launch"], question["aSecond"]))


if __name__ == "__main__":
    main()
