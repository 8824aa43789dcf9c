"""`reset_mocks`: mocks are emptied after a step is claimed, and before it is handed out.

Nothing here runs in a transaction that others wait for.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Final
from uuid import UUID

from apps.executions import conf
from apps.executions.domain import transitions
from apps.executions.domain.states import StepStatus
from apps.executions.selectors.definitions import RunDefinition
from apps.executions.selectors.mock_spaces import space_of
from apps.executions.services.run_aggregate import RunAggregate, load_run, save_runs
from apps.executions.services.run_progression import progress_run
from apps.mocks import api as mocks
from apps.streams.api import unit_of_work
from kernel.errors import PlatformError

WAITS_S: Final = 3.0  # for the mocks of all steps of a claim, whose answer the supervisor awaits
_LEAST_S: Final = 0.1
ClaimedStep = tuple[RunAggregate, int]


def with_mocks_reset(claimed: Iterable[ClaimedStep]) -> list[ClaimedStep]:
    """Empty the mocks that claimed steps reset; return the steps that can be handed out.

    A step whose mocks do not answer goes back to the queue, and fails after 60 s.
    """
    ready: list[ClaimedStep] = []
    until = time.monotonic() + WAITS_S
    for run, index in claimed:
        reset = run.definition.nodes[index].get("resetMocks", ())
        if not reset:
            ready.append((run, index))
            continue
        fault = reset_mocks(run.definition, run.execution.run_id, reset, until=until)
        if _record(run.execution.pk, index, run.attempt(index), fault):
            ready.append((run, index))
    return ready


def reset_mocks(
    definition: RunDefinition, run_id: str, mock_ids: Iterable[str], *, until: float
) -> str:
    """Empty mocks of a run; return why one may not be empty, "" if all are.

    `until` is the monotonic time until when they may take.
    """
    for mock_id in mock_ids:
        wait_s = max(_LEAST_S, until - time.monotonic())
        name = space_of(definition, run_id, mock_id)
        surfaces = [each for each, adapter in definition.mocks[mock_id].items() if adapter]
        if not surfaces:
            continue  # it has no state, and its own step says what is missing
        try:
            mocks.reset_space(name, surface_ids=surfaces)
        except PlatformError as error:  # the claim is stored: its answer must not be lost
            return f"{mock_id} could not be reset: {error.detail}"
        base_url = conf.mock_base_url()
        if fault := mocks.wait_until_ready(base_url, name, surfaces, timeout_s=wait_s):
            return f"{mock_id} could not be reset: {fault}"
    return ""


@unit_of_work
def _record(execution_pk: UUID, index: int, attempt: int, fault: str) -> bool:
    """Record the reset; return whether the attempt can be handed out."""
    run = load_run(execution_pk)
    if run is None or run.attempt(index) != attempt:
        return False
    if run.statuses[index] is not StepStatus.RUNNING:
        return False
    if fault:
        run.apply(transitions.mock_wait(run.step_state(index), fault))
        progress_run(run)
    else:
        emptied = ", ".join(run.definition.nodes[index]["resetMocks"])
        run.emit_step_event(index, "reset-mocks", f"the state of {emptied} is empty")
        if run.step(index).mocks_away_since:
            run.change_step(index, mocks_away_since=None)
    save_runs([run])
    return not fault
