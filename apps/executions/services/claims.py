"""Claims: steps go to the supervisor that asks, with the spec that it needs to run them.

(reference: control-plane 13.1, 15.2)
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from datetime import timedelta
from types import MappingProxyType
from typing import Any, Final, NamedTuple, cast
from uuid import UUID

from apps.agents.api import is_draining, is_online, is_routed_to
from apps.executions import conf
from apps.executions.domain import transitions
from apps.executions.domain.agent_reports import SupervisorSession
from apps.executions.domain.events import WORK_NUDGE
from apps.executions.domain.plan import may_begin, steps_ahead
from apps.executions.domain.states import JobState, RunReason
from apps.executions.domain.steps import BuiltIns, layered_env
from apps.executions.selectors.definitions import RunDefinition
from apps.executions.selectors.mock_spaces import mock_urls
from apps.executions.selectors.waiting_steps import WaitingStep, claimable, oldest_steps
from apps.executions.services.run_aggregate import RunAggregate, load_run, load_runs, save_runs
from apps.executions.services.run_progression import fail_run
from apps.executions.services.secrets import (
    SecretUnresolved,
    overriding,
    resolve_secrets,
    secret_overrides,
)
from apps.executions.services.step_queue import StepQueue, read_waiting_steps, waiting_step_of
from apps.executions.services.telemetry import attempt_span, observe_queue_wait
from apps.operations.api import installation_id
from apps.platform_settings.api import backends as configured_backends
from apps.streams.api import unit_of_work
from kernel.agent_protocol import EvaluationBody, ImportBody, RunBody, StepSpecBody

log = logging.getLogger("partita.executions")
ClaimedStep = tuple[RunAggregate, int]
_SPARE: Final = 16  # steps read beyond those wanted: some turn out not to be for this one
_ROUNDS: Final = 4  # in which a claim chooses, each without what it found not to be claimable


def claim_steps(
    supervisor: SupervisorSession,
    runs: dict[UUID, RunAggregate],
    *,
    limit: int,
    looks_around: bool = True,
    queue: StepQueue | None = None,
) -> ClaimedSteps:
    """Claim steps of the loaded runs and of others, which are loaded into `runs`.

    The oldest step comes first, steps queued in this unit of work last; in a `queue` the order is
    that of the shares of the workspaces. `looks_around` False claims only the latter, unless others
    share the queue. A supervisor that drains claims only steps of the runs bound to it.
    """
    backends = served_backends(supervisor) if limit else {}
    if not backends:
        return ClaimedSteps()
    looks_around = looks_around or queue is not None
    bindings = {supervisor.agent_id}
    if looks_around or any(not run.execution.bound_agent_id for run in runs.values()):
        bindings |= set() if is_draining(supervisor.agent_id) else {""}
    claiming = _Claiming(supervisor, backends, bindings, limit, queue)
    fresh = [waiting_step_of(run, index) for run in runs.values() for index in run.queued_now]
    waiting = _waiting_steps(claiming, runs, fresh) if looks_around else []
    steps = {each.key: each for each in [*waiting, *fresh]}
    claimed = []
    for step in _choose(claiming, list(steps.values()), runs):
        run = runs[step.pk]
        _give(run, step, supervisor)
        claimed.append((run, step.index))
        if queue is not None:
            queue.give(step, run.now)
    if queue is not None:
        queue.save()
    return ClaimedSteps(claimed, steps_ahead=_steps_ahead(claimed, steps.values(), claiming))


class ClaimedSteps(NamedTuple):
    """`steps_ahead`: those of the same runs that may come next for the same supervisor."""

    steps: Sequence[ClaimedStep] = ()
    steps_ahead: Mapping[UUID, Sequence[int]] = MappingProxyType({})


class _Claiming(NamedTuple):
    """Who claims, how many steps, and of which backends and runs."""

    supervisor: SupervisorSession
    backends: Mapping[str, str]
    bindings: Set[str]
    limit: int
    queue: StepQueue | None


def _choose(
    claiming: _Claiming, waiting: Sequence[WaitingStep], runs: dict[UUID, RunAggregate]
) -> list[WaitingStep]:
    """Return the steps to claim, whose runs are then in `runs`: no others are loaded.

    What is known of a waiting step may be older than its run. So each is looked at again once its
    run is loaded, and if some are not claimable any longer, others are chosen.
    """
    chosen: list[WaitingStep] = []
    asked: set[UUID] = set()
    for _ in range(_ROUNDS):
        able = [each for each in waiting if _may_claim(each, runs, claiming, asked)]
        chosen = _first(claiming, able)
        missing = {each.pk for each in chosen} - runs.keys()
        if not missing:
            return chosen
        runs.update(load_runs(missing))
        asked |= missing
    return [each for each in chosen if _may_claim(each, runs, claiming, asked)]


def _first(claiming: _Claiming, able: list[WaitingStep]) -> list[WaitingStep]:
    if claiming.queue is None or not able:
        return able[: claiming.limit]
    return claiming.queue.choose(able, claiming.limit)


def _steps_ahead(
    claimed: Sequence[ClaimedStep], waiting: Iterable[WaitingStep], claiming: _Claiming
) -> dict[UUID, Sequence[int]]:
    """Return the steps that may come next in the runs of claimed steps, by run.

    None while others wait for the places that these would take.
    """
    count = claiming.supervisor.starts_ahead
    if not count or not claimed:
        return {}
    given = {(run.execution.pk, at) for run, at in claimed}
    if any(each.takes_place and each.key not in given for each in waiting):
        return {}
    return {
        run.execution.pk: steps_ahead(
            run.plan, run.statuses, count=count, skipped_by=run.not_selected
        )
        for run in {each.execution.pk: each for each, _ in claimed}.values()
    }


def _give(run: RunAggregate, step: WaitingStep, supervisor: SupervisorSession) -> None:
    run.outbox.record_metric(observe_queue_wait(step.queued_at, run.now, step.kind))
    timeout = timedelta(milliseconds=run.definition.nodes[step.index]["timeoutMs"])
    run.apply(
        transitions.claim(
            run.step_state(step.index), supervisor, lease=conf.lease(), timeout=timeout
        )
    )
    if not run.execution.bound_agent_id:
        run.change_run(bound_agent_id=supervisor.agent_id)


def release_bindings(runs: Iterable[RunAggregate]) -> None:
    """Release runs from supervisors that are offline, so that others can claim their steps."""
    for run in runs:
        bound = run.execution.bound_agent_id
        if bound and not is_online(bound):
            run.change_run(bound_agent_id="")
            run.nudge(WORK_NUDGE)


def served_backends(supervisor: SupervisorSession) -> dict[str, str]:
    """Return backend id → kind of the backends whose steps this supervisor may claim."""
    return {
        backend.backend_id: backend.kind
        for backend in configured_backends()
        if backend.enabled
        and backend.backend_id in supervisor.backends
        and backend.kind in supervisor.kinds
        and is_routed_to(backend, supervisor.labels)
    }


def _waiting_steps(
    claiming: _Claiming, runs: Mapping[UUID, RunAggregate], fresh: Collection[WaitingStep]
) -> list[WaitingStep]:
    """Return steps that wait in the store, the oldest first; in a queue also younger ones."""
    steps = claimable(claiming.backends).filter(
        execution__bound_agent_id__in=list(claiming.bindings)
    )
    if claiming.supervisor.capabilities:
        steps = steps.filter(kind__in=claiming.supervisor.capabilities)
    if claiming.queue is None:
        return oldest_steps(steps, claiming.limit + _SPARE)
    return read_waiting_steps(claiming.queue, steps, claiming.limit, runs=runs, fresh=fresh)


def _may_claim(
    step: WaitingStep,
    runs: Mapping[UUID, RunAggregate],
    claiming: _Claiming,
    asked: Collection[UUID],
) -> bool:
    """Return whether a step is claimable; True of a run that was not `asked` for."""
    run, supervisor = runs.get(step.pk), claiming.supervisor
    if run is None:
        return step.pk not in asked
    execution = run.execution
    if not run.is_planning or run.job_states[step.index] is not JobState.PENDING:
        return False
    is_served = claiming.backends.get(execution.backend_id) == execution.backend_kind
    if not is_served or execution.bound_agent_id not in claiming.bindings:
        return False
    node = run.plan.nodes[step.index]
    if supervisor.capabilities and node.kind not in supervisor.capabilities:
        return False
    return may_begin(run.plan, run.statuses, step.index, run.not_selected)


def specs_of(claimed: ClaimedSteps) -> tuple[StepSpecBody, ...]:
    """Return the specs of claimed steps; fail runs whose secrets do not resolve and omit these."""
    specs: list[StepSpecBody] = []
    last: dict[UUID, tuple[RunAggregate, StepSpecBody]] = {}
    for run, index in claimed.steps:
        try:
            spec = step_spec(run, index)
        except SecretUnresolved as error:
            log.warning("%s: %s", run.execution.run_id, error.detail)
            fail_for_secrets(run.execution.pk, error.detail)
            continue
        specs.append(spec)
        last[run.execution.pk] = run, spec
    for pk, (run, spec) in last.items():
        if ahead := _specs_ahead(run, claimed.steps_ahead.get(pk, ())):
            spec["ahead"] = ahead
    return tuple(specs)


def _specs_ahead(run: RunAggregate, indexes: Iterable[int]) -> list[StepSpecBody]:
    """Return the specs of steps that are not claimed yet, of those without secrets of a provider.

    A secret is read when its step is claimed: until then it may change, and takes time here.
    """
    nodes = run.definition.nodes
    return [
        step_spec(run, index, attempt=run.attempt(index) + 1)
        for index in indexes
        if not run.definition.secret_refs(nodes[index]["id"])
    ]


@unit_of_work
def fail_for_secrets(execution_pk: Any, detail: str) -> None:
    run = load_run(execution_pk)
    if run is not None and run.is_planning:
        fail_run(run, RunReason.SECRET_UNRESOLVED, detail)
        save_runs([run])


def step_spec(run: RunAggregate, index: int, *, attempt: int = 0) -> StepSpecBody:
    """Return what a supervisor needs to run the step; raise SecretUnresolved.

    `attempt`: by default the current one.

    Values of secrets are in `env`, the names of their variables in `secretKeys`.
    """
    definition = run.definition
    node = definition.nodes[index]
    secrets = resolve_secrets(definition.secret_refs(node["id"]))
    attempt = attempt or run.attempt(index)
    env = _env(run, index, secrets, attempt=attempt)
    imported = cast(
        "ImportBody", {key: node[key] for key in ImportBody.__annotations__ if key in node}
    )
    spec: StepSpecBody = {
        "jobId": run.rows.keys.job_ids[index],
        "attempt": attempt,
        **_run_body(run),
        "runtimeProfile": node.get("runtimeProfile", run.execution.profile),
        **imported,  # type: ignore[typeddict-item]  # it has none of the members below
        "stepIndex": index + 1,
        "totalSteps": len(definition.nodes),
        "leaseMs": int(conf.lease().total_seconds() * 1000),
        "timeoutMs": node["timeoutMs"],
        "env": env,
        "headers": node.get("runtimeHeaders", {}),
        "mockUrls": mock_urls(definition, run.execution.run_id, node["id"]),
        "secretKeys": sorted(secrets.keys() | secret_overrides(env)),
        "evaluation": _evaluation(node),
        "onFailure": list(node.get("onFailure", ())),
        "artifactExports": list(node.get("artifactExports", ())),
        "observability": dict(definition.profile["observability"]),
        "node": dict(node),
    }
    if traceparent := _traceparent(run, index, attempt):
        spec["traceparent"] = env["TRACEPARENT"] = traceparent
    if content := definition.content(index):
        spec["content"] = {"digest": content["digest"], "size": content["size"]}
    if run.execution.keep_alive_ms:
        spec["keepUnits"] = True
    if "traffic" in node:
        spec["traffic"] = node["traffic"]
    return spec


def source_suite(definition: RunDefinition, index: int) -> str:
    """Return the id of the suite that declares the step; the step sees the files of this suite."""
    source: str = definition.nodes[index].get("sourceSuiteId", definition.suite["id"])
    return source


def _run_body(run: RunAggregate) -> RunBody:
    execution = run.execution
    body: RunBody = {
        "executionId": execution.run_id,
        "suiteId": execution.suite_id,
        "suiteTitle": execution.suite_title,
        "suiteRepository": execution.suite_repository,
        "workspaceId": str(execution.workspace_id),
        "owner": execution.author,
        "installationId": installation_id(),
        "profile": execution.profile,
        "trigger": execution.trigger,
        "backendId": execution.backend_id,
        "backendKind": execution.backend_kind,
        "backendLabel": execution.backend_label,
    }
    if execution.request_id:
        body["requestId"] = execution.request_id
    return body


def _traceparent(run: RunAggregate, index: int, attempt: int) -> str:
    """Return the traceparent of the attempt's span; empty if the profile turns traces off.

    (reference: control-plane 6.1)
    """
    if not run.definition.profile["observability"].get("traces", True):
        return ""
    span = attempt_span(run.execution, run.plan.nodes[index].id, attempt)
    return str(span or "")


def _env(
    run: RunAggregate, index: int, secrets: Mapping[str, str], *, attempt: int
) -> dict[str, str]:
    node = run.definition.nodes[index]
    built_ins = BuiltIns(
        execution_id=run.execution.run_id,
        suite_id=run.execution.suite_id,
        source_suite_id=source_suite(run.definition, index),
        profile=run.execution.profile,
        step_id=node["id"],
        step_name=node["name"],
        step_kind=node["kind"],
        attempt=attempt,
        mock_base_url=conf.mock_base_url(),
        mock_urls=mock_urls(run.definition, run.execution.run_id, node["id"]),
    ).variables(conf.env_prefixes())
    return layered_env(
        node,
        profile=run.definition.profile,
        overrides=overriding(),
        secrets=secrets,
        built_ins=built_ins,
    )


def _evaluation(node: Mapping[str, Any]) -> EvaluationBody:
    declared = node.get("evaluation", {})
    return {
        "expectExit": declared.get("expectExit", 0),
        "expectLogs": list(declared.get("expectLogs", ())),
        "failOnLogs": list(declared.get("failOnLogs", ())),
    }
