"""Reruns: an ended run once more in a new environment, whole or in part, from its snapshot.

(reference: control-plane 11.6)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypedDict

from apps.accounts.api import Principal, Role
from apps.agents.api import reasons_to_wait
from apps.executions.domain.plan import RunPlan, plan_of
from apps.executions.domain.rerun import (
    RerunReason,
    RerunScope,
    SelectedStep,
    Selection,
    StepOutcomeFacts,
    select_steps,
)
from apps.executions.domain.runs import (
    Concurrency,
    ExecutionActive,
    ExecutionNotFound,
    Idempotency,
    Launched,
    LaunchRequest,
)
from apps.executions.domain.states import FINAL_EXECUTION, StepStatus
from apps.executions.domain.steps import step_index
from apps.executions.models import Execution, Snapshot, Step
from apps.executions.selectors.runs import get_execution
from apps.executions.services.launch import (
    Accepted,
    RunBefore,
    find_replay,
    launch_accepted,
    refuse_unknown_providers,
)
from apps.executions.services.snapshot_suites import (
    SnapshotLaunch,
    snapshot_launch,
    snapshot_launch_with,
)
from apps.observability.api import request_context
from apps.platform_settings.api import select_backend
from kernel.errors import FieldError, InvalidInput

_OF_ITSELF: Final = {
    RerunReason.FAILED,
    RerunReason.CANCELED,
    RerunReason.NOT_RUN,
    RerunReason.DEPENDS_ON,
    RerunReason.CHOSEN,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RerunRequest:
    """`step` is the id or name of a step, for the scope `step`; `profile` may be another one.

    `keep_alive_ms` is as in a LaunchRequest.
    """

    scope: RerunScope = RerunScope.ALL
    step: str = ""
    profile: str = ""
    keep_alive_ms: int | None = None


class _RerunStep(TypedDict, total=False):
    because: str


class RerunStepBody(_RerunStep):
    """A step of the plan with why it runs again, or why not; `because` is another step."""

    id: str
    kind: str
    reason: str
    text: str


class RerunPlanBody(TypedDict):
    """What a rerun would do, as on the wire."""

    rerunOf: str
    scope: str
    sentence: str
    suiteId: str
    profile: str
    backendId: str
    backend: str
    steps: list[RerunStepBody]
    notSelected: list[RerunStepBody]


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedRerun:
    """A rerun that passed every check, with its plan for people."""

    accepted: Accepted
    plan: RerunPlanBody


def launch_rerun(
    principal: Principal,
    run_id: str,
    request: RerunRequest,
    *,
    idempotency: Idempotency | None = None,
) -> Launched:
    """Run an ended run again, at most once per idempotency key.

    Raise, in this order: ExecutionNotFound, Forbidden, IdempotencyKeyReused, then as
    `prepare_rerun`, and QueueFull.
    """
    execution = get_execution(principal, run_id)
    principal.require(Role.RUNNER)
    if earlier := find_replay(idempotency):
        return earlier
    return launch_accepted(_prepare(principal, execution, request).accepted, idempotency)


def prepare_rerun(principal: Principal, run_id: str, request: RerunRequest) -> PreparedRerun:
    """Check a rerun and return what it would do; nothing is stored.

    Raise, in this order: ExecutionNotFound, Forbidden, ExecutionActive, InvalidInput for a step
    that the run does not have, ProfileNotInSuite, ProfileInvalid, TopologyInvalid, SnapshotDiffers,
    NothingToRerun, BackendUnknown, BackendUnavailable.
    """
    execution = get_execution(principal, run_id)
    principal.require(Role.RUNNER)
    return _prepare(principal, execution, request)


def _concurrency(execution: Execution) -> Concurrency | None:
    """Return the group of the run that is repeated: a rerun of it is one more run of the group."""
    if not execution.concurrency_group:
        return None
    return Concurrency(
        group=execution.concurrency_group, cancel_in_progress=execution.cancel_in_progress
    )


def _prepare(principal: Principal, execution: Execution, request: RerunRequest) -> PreparedRerun:
    if execution.status not in FINAL_EXECUTION:
        raise ExecutionActive(f"{execution.run_id} has not finished: wait for it, or cancel it")
    _check_scope(request)
    launch = _snapshot_launch(execution, request.profile)
    plan = plan_of(launch.suite.topology)
    chosen = _chosen_step(plan, launch, request.step)
    refuse_unknown_providers(launch.secret_refs)
    selection = select_steps(plan, _outcomes(execution, plan), request.scope, chosen)
    backend = select_backend(execution.backend_id, reasons_to_wait())
    accepted = Accepted(
        principal=principal,
        request=LaunchRequest(
            suite_id=execution.suite_id,
            profile=launch.profile.file_name,
            backend=backend.backend_id,
            keep_alive_ms=request.keep_alive_ms,
            trigger="Rerun",
            commit=execution.commit,
            branch=execution.branch,
            message=execution.message,
            concurrency=_concurrency(execution),
        ),
        suite=launch.suite,
        profile=launch.profile,
        backend=backend,
        packed=launch.packed,
        request_id=request_context().request_id,
        caller=request_context().trace,
        before=RunBefore(
            run_id=execution.run_id,
            first_run_id=execution.first_run_id or execution.run_id,
            workspace_id=execution.workspace_id,
            not_selected=frozenset(each.index for each in selection.omitted),
        ),
    )
    return PreparedRerun(accepted=accepted, plan=_plan_document(accepted, plan, selection, request))


def _check_scope(request: RerunRequest) -> None:
    if (request.scope is RerunScope.STEP) == bool(request.step):
        return
    detail = (
        "the scope failed or all has no step: send the scope step with it"
        if request.step
        else "the scope step needs the id or name of a step"
    )
    code = "invalid_value" if request.step else "required"
    raise InvalidInput(detail, errors=[FieldError(pointer="/step", code=code, detail=detail)])


def _snapshot_launch(execution: Execution, profile: str) -> SnapshotLaunch:
    snapshot = Snapshot.objects.filter(pk=execution.snapshot_id).first()
    if snapshot is None:  # removed since, with the run
        raise ExecutionNotFound
    if profile in ("", execution.profile):
        return snapshot_launch(snapshot)
    return snapshot_launch_with(snapshot, profile)


def _chosen_step(plan: RunPlan, launch: SnapshotLaunch, step: str) -> int | None:
    """Return the index of the step with this id or name; raise InvalidInput."""
    if not step:
        return None
    ids = [node.id for node in plan.nodes]
    names = [str(node["name"]) for node in launch.suite.topology]
    return step_index(step, ids=ids, names=names, pointer="/step")


def _outcomes(execution: Execution, plan: RunPlan) -> list[StepOutcomeFacts]:
    """Return how the steps ended; one that only the other profile has did not run."""
    rows = Step.objects.filter(execution=execution).values_list("step_id", "status", "reason")
    known = {step: StepOutcomeFacts(StepStatus(status), reason) for step, status, reason in rows}
    return [known.get(node.id, StepOutcomeFacts(StepStatus.PENDING)) for node in plan.nodes]


def _plan_document(
    accepted: Accepted, plan: RunPlan, selection: Selection, request: RerunRequest
) -> RerunPlanBody:
    assert accepted.before is not None, "it is a rerun"
    return {
        "rerunOf": accepted.before.run_id,
        "scope": str(request.scope),
        "sentence": selection_sentence(selection),
        "suiteId": accepted.suite.id,
        "profile": accepted.profile.file_name,
        "backendId": accepted.backend.backend_id,
        "backend": accepted.backend.label,
        "steps": [_step_document(plan, each) for each in selection.steps],
        "notSelected": [
            {
                "id": plan.nodes[each.index].id,
                "kind": plan.nodes[each.index].kind,
                "reason": str(each.reason),
                "text": each.text,
            }
            for each in selection.omitted
        ],
    }


def _step_document(plan: RunPlan, step: SelectedStep) -> RerunStepBody:
    node = plan.nodes[step.index]
    document: RerunStepBody = {
        "id": node.id,
        "kind": node.kind,
        "reason": str(step.reason),
        "text": step.text(plan),
    }
    if step.because is not None:
        document["because"] = plan.nodes[step.because].id
    return document


def selection_sentence(selection: Selection) -> str:
    """Return how many steps run again, and why, in one sentence."""
    total = len(selection.steps) + len(selection.omitted)
    if not selection.omitted and all(
        each.reason is RerunReason.EVERY_STEP for each in selection.steps
    ):
        return f"All {total} steps run again." if total != 1 else "The only step runs again."
    reasons = [each.reason for each in selection.steps]
    own = sum(reason in _OF_ITSELF for reason in reasons)
    what = "chosen" if RerunReason.CHOSEN in reasons else "that failed or did not run"
    parts = [f"{own} {what}"]
    if needed := reasons.count(RerunReason.NEEDED_BY):
        parts.append(f"{needed} needed by {'it' if own == 1 else 'them'}")
    if handlers := reasons.count(RerunReason.ON_FAILURE):
        parts.append(f"{handlers} only after a failure")
    return f"{len(reasons)} of {total} steps run again: {', '.join(parts)}."
