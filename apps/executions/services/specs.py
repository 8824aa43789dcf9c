"""Step specs: what a supervisor gets to run a step (reference: control-plane 13.1)."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any

from apps.executions import conf
from apps.executions.domain.states import RunReason
from apps.executions.domain.step_env import BuiltIns, layered_env
from apps.executions.selectors.plans import RunPlan
from apps.executions.services.board import Board, open_board, write_boards
from apps.executions.services.claims import Claimed
from apps.executions.services.secrets import (
    SecretUnresolved,
    overriding,
    resolve_secrets,
    secret_overrides,
)
from apps.executions.services.settling import fail_run
from apps.executions.services.tracing import attempt_span
from apps.streams.api import unit_of_work
from apps.system.api import installation_id

log = logging.getLogger("partita.executions")
_IMPORTED_KEYS = (
    "sourceSuiteId",
    "sourceSuiteTitle",
    "sourceRepository",
    "sourceVersion",
    "dependencyAlias",
    "resolvedRef",
    "digest",
)


def specs_of(claimed: Iterable[Claimed]) -> tuple[dict[str, Any], ...]:
    """The specs of steps just claimed. A run whose secrets are gone fails, and is left out."""
    specs = []
    for claim in claimed:
        try:
            specs.append(step_spec(claim.board, claim.at, attempt=claim.attempt))
        except SecretUnresolved as error:
            log.warning("%s: %s", claim.board.execution.run_id, error.detail)
            fail_for_secrets(claim.board.execution.pk, error.detail)
    return tuple(specs)


@unit_of_work
def fail_for_secrets(execution_pk: Any, detail: str) -> None:
    board = open_board(execution_pk)
    if board is not None and board.is_planning:
        fail_run(board, RunReason.SECRET_UNRESOLVED, detail)
        write_boards([board])


def step_spec(board: Board, at: int, *, attempt: int) -> dict[str, Any]:
    """Reads secrets: their values are in `env`, their names in `secretKeys`. SecretUnresolved."""
    node = board.run.nodes[at]
    run = board.run
    secrets = resolve_secrets(run.profile["secretRefs"])
    env = _env(board, at, attempt, secrets)
    spec = {
        "jobId": board.keys.job_ids[at],
        "attempt": attempt,
        **_run_facts(board),
        "runtimeProfile": node.get("runtimeProfile", board.execution.profile),
        **{key: node[key] for key in _IMPORTED_KEYS if key in node},
        "stepIndex": at + 1,
        "totalSteps": len(run.nodes),
        "leaseMs": int(conf.lease().total_seconds() * 1000),
        "timeoutMs": node["timeoutMs"],
        "env": env,
        "headers": node.get("runtimeHeaders", {}),
        "mockUrls": {},
        "secretKeys": sorted(secrets.keys() | secret_overrides(env)),
        "evaluation": _evaluation(node),
        "onFailure": list(node.get("onFailure", ())),
        "artifactExports": list(node.get("artifactExports", ())),
        "observability": dict(run.profile["observability"]),
        "node": dict(node),
    }
    if traceparent := _trace(board, at, attempt):
        spec["traceparent"] = traceparent
        spec["env"]["TRACEPARENT"] = traceparent
    if content := run.contents.get(source_suite(run, at)):
        spec["content"] = dict(content)
    return spec | ({"traffic": node["traffic"]} if "traffic" in node else {})


def source_suite(run: RunPlan, at: int) -> str:
    """Whose files the step sees: those of the suite it was declared in."""
    source: str = run.nodes[at].get("sourceSuiteId", run.suite["id"])
    return source


def _run_facts(board: Board) -> dict[str, Any]:
    execution = board.execution
    facts = {
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
    return facts | ({"requestId": execution.request_id} if execution.request_id else {})


def _trace(board: Board, at: int, attempt: int) -> str:
    """The traceparent of the attempt's span; empty when the profile has traces off.

    (reference: control-plane 6.1)
    """
    if not board.run.profile["observability"].get("traces", True):
        return ""
    return str(attempt_span(board.execution, board.run.plan.nodes[at].id, attempt) or "")


def _env(board: Board, at: int, attempt: int, secrets: Mapping[str, str]) -> dict[str, str]:
    node = board.run.nodes[at]
    built_ins = BuiltIns(
        execution_id=board.execution.run_id,
        suite_id=board.execution.suite_id,
        source_suite_id=source_suite(board.run, at),
        profile=board.execution.profile,
        step_id=node["id"],
        step_name=node["name"],
        step_kind=node["kind"],
        attempt=attempt,
        mock_base_url=conf.mock_base_url(),
    ).variables(conf.env_prefixes())
    return layered_env(
        node,
        profile=board.run.profile,
        overrides=overriding(),
        secrets=secrets,
        built_ins=built_ins,
    )


def _evaluation(node: Mapping[str, Any]) -> dict[str, Any]:
    declared = node.get("evaluation", {})
    return {
        "expectExit": declared.get("expectExit", 0),
        "expectLogs": list(declared.get("expectLogs", ())),
        "failOnLogs": list(declared.get("failOnLogs", ())),
    }
