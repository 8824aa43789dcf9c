"""The parts of a run's page: its steps, reports and sentences, from the documents of the API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

from apps.console.domain import display
from apps.executions.api import FINAL_EXECUTION, REPORT_FORMATS, RunVerdict


class StepRow(TypedDict):
    """A step of a run's page, with texts for its reason, causes and durations."""

    step: Mapping[str, Any]
    node: Mapping[str, Any]
    display: display.StatusDisplay
    reason: str
    detail: str
    causes: Sequence[tuple[str, str]]  # step, why
    took: str
    ticks: bool  # it still runs
    command: str
    usage: str
    enterable: bool  # a shell can be opened in it


def can_repeat(run: Mapping[str, Any]) -> bool:
    """Return whether steps of the run can run again in its environment, which is kept."""
    keep = run.get("keep", {})
    is_kept = run["status"] in FINAL_EXECUTION and "until" in keep and "endedAt" not in keep
    return is_kept and run["backendKind"] != "remote-agent"


def step_row(
    step: Mapping[str, Any], node: Mapping[str, Any], *, enterable: bool = False
) -> StepRow:
    """Return the row of a step; `node` is its declaration."""
    return {
        "step": step,
        "node": node,
        "display": display.step_display(step["status"]),
        "reason": display.step_reason(step),
        "detail": display.step_detail(step),
        "causes": display.cause_links(step.get("cause", [])),
        "took": display.duration(step.get("durationMs")),
        "ticks": "startedAt" in step and "finishedAt" not in step,
        "command": " ".join(node.get("command", ())),
        "usage": display.usage_text(step.get("usage", {})),
        "enterable": enterable,
    }


def has_tests(rows: Sequence[StepRow]) -> bool:
    """Return whether the run can have results as JUnit: tests, or reports of other steps."""
    exports = [each for row in rows for each in row["node"].get("artifactExports", ())]
    reports = [each for each in exports if each["format"] in REPORT_FORMATS]
    return bool(reports) or any(row["step"]["kind"] == "test" for row in rows)


def missing_artifacts(rows: Sequence[StepRow]) -> list[dict[str, str]]:
    """Return the declared artifacts that steps did not leave: step id and name, path, hint."""
    return [
        {"step_id": row["step"]["id"], "step_name": row["step"]["name"], "hint": "", **each}
        for row in rows
        for each in row["step"].get("missingArtifacts", ())
    ]


def has_healthy_step(run: Mapping[str, Any]) -> bool:
    return any(step["status"] == "healthy" for step in run["steps"])


def test_reports(artifacts: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the artifacts that are test reports: those with failures first, then by step."""
    return sorted(
        (one for one in artifacts if "testSummary" in one),
        key=lambda one: (
            not (one["testSummary"]["failures"] or one["testSummary"]["errors"]),
            artifact_place(one),
        ),
    )


def artifact_row(artifact: Mapping[str, Any]) -> dict[str, object]:
    return {
        **artifact,
        "sizeText": display.size_text(artifact["size"]),
        "has_preview": "content" in artifact or "imageType" in artifact,
    }


def artifact_place(artifact: Mapping[str, Any]) -> tuple[object, ...]:
    """Return a key that sorts artifacts by step, attempt and name."""
    name = artifact.get("name") or artifact["path"]
    step = display.natural_key(artifact["stepName"])
    return step, artifact["attempt"], display.natural_key(name)


def failed_steps(rows: Sequence[StepRow]) -> list[StepRow]:
    """Return the failed steps, those that fail the run first, then in the order they ended."""
    failed = [row for row in rows if row["step"]["status"] == "failed"]
    return sorted(
        failed,
        key=lambda row: (row["step"]["continueOnFailure"], row["step"].get("finishedAt", "")),
    )


def verdict_steps(verdict: RunVerdict) -> list[dict[str, object]]:
    """Return the failed steps of a verdict, each with `rest`: its sentence without its id."""
    return [
        {**step, "rest": step["sentence"].removeprefix(step["stepId"])} for step in verdict["steps"]
    ]


def announcement(run: Mapping[str, Any]) -> str:
    """Return the status of a run as one sentence for screen readers."""
    if run["status"] == "Queued" and "queuePosition" in run:
        return f"Queued, position {run['queuePosition']}"
    shown = display.run_display(run["status"], failing=run["failing"], begun=has_healthy_step(run))
    return f"{shown.label} after {run['duration']}"
