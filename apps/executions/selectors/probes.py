"""What the services of a run that are not ready wait for, for its stream.

(reference: control-plane 12)
"""

from __future__ import annotations

import json
from typing import TypedDict

from apps.executions.domain.states import StepStatus
from apps.executions.domain.steps import ProbeBody, probe_of
from apps.executions.models import Step
from apps.executions.selectors.runs import all_runs
from apps.streams import api as streams


class WaitingStepBody(TypedDict):
    id: str
    attempt: int
    probe: ProbeBody


class ProbesTaker:
    """Returns the services that wait as JSON bytes; raises ViewOver once the run has ended."""

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id

    def __call__(self) -> bytes:
        row = all_runs().filter(run_id=self._run_id).only("status", "finished_at").first()
        if row is None or row.finished_at is not None:
            raise streams.ViewOver(row.status if row else "deleted")
        document = {
            "executionId": self._run_id,
            "steps": [
                waiting
                for step in Step.objects.filter(execution=row, status=StepStatus.RUNNING.value)
                .only("step_id", "attempt", "status", "probe")
                .order_by("index")
                if (waiting := _waiting(step))
            ],
        }
        return json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()


def _waiting(step: Step) -> WaitingStepBody | None:
    probe = probe_of(step.probe, status=step.status, attempt=step.attempt)
    return {"id": step.step_id, "attempt": step.attempt, "probe": probe} if probe else None
