"""In the process that `bench.runner` starts: launching what it is asked, and reading it back.

{"suite": id} → {"runId", "seconds" from launch to the commit of the end, "accepted" s, "status"};
{"steps": run id} → {"ended": when each of its steps ended, s since the first, in that order};
{"lines": run id} → {"count", "sum" of the numbers that its output lines are}.
"""

from __future__ import annotations

import json
import os
import threading
import time
from typing import Any

from apps.accounts.api import operator
from apps.agents.api import online_agents
from apps.executions import api as executions
from apps.executions.domain.events import events_topic, logs_topic
from apps.executions.models import Execution, Step
from apps.executions.services.admission import dispatch
from apps.streams.api import iterate, listen
from apps.workers.api import RunnerThread
from bench.stand import answer, questions

STARTED_WITHIN_S = 30
LOOK_S = 0.25  # whether it is over; when, the nudges tell: a look takes time from what is measured


def serve() -> None:
    runner = RunnerThread(os.environ["BENCH_RUNTIME"])
    runner.start()
    _until_online()
    for question in questions():
        if suite := question.get("suite"):
            answer(**run(suite))
        elif run_id := question.get("steps"):
            answer(ended=step_ends(run_id))
        elif run_id := question.get("lines"):
            answer(**lines(run_id))
    runner.stop()


def _until_online() -> None:
    deadline = time.monotonic() + STARTED_WITHIN_S
    while not online_agents():
        if time.monotonic() > deadline:
            raise TimeoutError("the runner does not register")
        time.sleep(0.05)


def run(suite_id: str) -> dict[str, Any]:
    principal = operator()
    began = time.perf_counter()
    run_id = _launched(principal, suite_id)
    accepted = time.perf_counter()
    watch = Watch(run_id)
    dispatch()
    ended = watch.until_over()
    return {
        "runId": run_id,
        "seconds": ended - began,
        "accepted": accepted - began,
        "status": watch.status(),
    }


def _launched(principal: Any, suite_id: str) -> str:
    return str(executions.launch(principal, executions.LaunchRequest(suite_id=suite_id))["id"])


class Watch:
    """Sees when a run ends without asking the store while it runs fast: by nudges."""

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id
        self._nudged_at = time.perf_counter()
        self._nudged = threading.Event()
        self._unsubscribe = listen(events_topic(run_id), self._note)

    def _note(self) -> None:
        self._nudged_at = time.perf_counter()
        self._nudged.set()

    def until_over(self) -> float:
        """When the last transaction of the run was committed."""
        while self.status() not in ("Healthy", "Failed", "Canceled"):
            time.sleep(LOOK_S)
        self._unsubscribe()
        return self._nudged_at

    def status(self) -> str:
        return Execution.objects.values_list("status", flat=True).get(run_id=self._run_id)


def step_ends(run_id: str) -> list[float]:
    rows = Step.objects.filter(execution__run_id=run_id, finished_at__isnull=False)
    ends = sorted(rows.values_list("finished_at", flat=True))
    return [(each - ends[0]).total_seconds() for each in ends]


def lines(run_id: str) -> dict[str, Any]:
    count = total = 0
    for chunk in iterate(logs_topic(run_id)):
        for record in chunk.records:
            line = json.loads(record)
            if line["kind"] == "output":
                count += 1
                total += int(line["text"])
    return {"count": count, "sum": total}
