"""What steps wait for: services until they are ready, units until they start; for a stream.

(reference: control-plane 12)
"""

from __future__ import annotations

import json
from typing import Final, NotRequired, TypedDict

from apps.executions.domain.states import StepStatus
from apps.executions.domain.steps import ProbeBody, probe_of, wait_of
from apps.executions.models import Execution, Step
from apps.streams import api as streams

_NAMES: Final = 2  # members of a step that waits for nothing


class WaitingStepBody(TypedDict):
    """`probe` of a service that is not ready, `waitsFor` of a unit that cannot start."""

    id: str
    attempt: int
    probe: NotRequired[ProbeBody]
    waitsFor: NotRequired[str]


class ProbesTaker:
    """Returns the steps that wait as JSON bytes; raises ViewOver once the run has ended."""

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id

    def __call__(self) -> bytes:
        row = (
            Execution.objects.not_deleted()
            .filter(run_id=self._run_id)
            .only("status", "finished_at")
            .first()
        )
        if row is None or row.finished_at is not None:
            raise streams.ViewOver(row.status if row else "deleted")
        document = {
            "executionId": self._run_id,
            "steps": [
                waiting
                for step in Step.objects.filter(execution=row, status=StepStatus.RUNNING.value)
                .only("step_id", "attempt", "status", "probe", "waits_for", "unit_started_at")
                .order_by("index")
                if (waiting := _waiting(step))
            ],
        }
        return json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()


def _waiting(step: Step) -> WaitingStepBody | None:
    body: WaitingStepBody = {"id": step.step_id, "attempt": step.attempt}
    if probe := probe_of(step.probe, status=step.status, attempt=step.attempt):
        body["probe"] = probe
    has_unit = step.unit_started_at is not None
    if waits_for := wait_of(step.waits_for, status=step.status, has_unit=has_unit):
        body["waitsFor"] = waits_for
    return body if len(body) > _NAMES else None
