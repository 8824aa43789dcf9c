"""The contexts of the pages: values of other apps with the texts and marks to display."""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, TypedDict
from urllib.parse import unquote, urlencode

from django.utils import timezone

from apps.accounts.api import Principal
from apps.console.domain import display, layout, mock_display, suite_parts
from apps.console.domain.markdown import FileLink, markdown_html
from apps.console.domain.mock_explorer import call_form
from apps.executions import api as executions
from apps.executions.api import FINAL_EXECUTION
from apps.suites import api as suites
from kernel.errors import NotFound, PlatformError

RECENT_RUNS_OF_SUITE = 10
MAX_DRAWN_NODES = 500
OPEN_GRAPH_NODES = 15  # a larger drawing is folded
LAST_WORDS = 8  # lines
LAST_WORDS_WIDTH = 400  # characters
_NO_NEW_LOCK = ("topology_invalid", "package_invalid", "registry_unreachable")


class SurfaceNotFound(NotFound):
    code = "surface_not_found"


class OperationNotFound(NotFound):
    code = "operation_not_found"


class StepRow(TypedDict):
    """A step of a run's page, with texts for its reason, causes and durations."""

    step: Mapping[str, Any]
    node: Mapping[str, Any]
    display: display.StatusDisplay
    reason: str
    causes: Sequence[tuple[str, str]]  # step, why
    took: str
    ticks: bool  # it still runs
    command: str
    usage: str


def launch_suites() -> list[dict[str, object]]:
    """Return the launchable suites with profiles and backends (reference: control-plane 11.1)."""
    return [
        suite
        | {
            "backends": [
                {**backend, "isolated": display.is_isolated(backend["label"])}
                for backend in suite["backends"]
            ]
        }
        for suite in executions.launch_suites()
    ]


def suite_list() -> list[dict[str, object]]:
    """Return every suite, also broken ones, with the number of its steps and its error."""
    return [
        suite | {"steps": len(suite.get("topology", ())), "problem": suite.get("topologyError")}
        for suite in suites.list_suites()
    ]


def suite_page(suite_id: str, file: str) -> dict[str, object]:
    """Return a suite with its drawing and the lines of `file`; raise SuiteNotFound.

    Without `file`, show the file with the error, else suite.star.
    """
    suite = suites.get_definition(suite_id)
    problem = suite.get("topologyError")
    contents = {source["path"]: source for source in suite["sourceFiles"]}
    candidates = (
        file,
        problem.get("file", "") if problem else "",
        "suite.star",
        next(iter(contents), ""),
    )
    chosen = next(path for path in candidates if path in contents or (not path and not contents))
    return {
        "suite": suite,
        "warnings": suite_parts.warnings_by_file(suite["warnings"]),
        "readme": markdown_html(contents["README.md"]["content"], file_links(contents))
        if "README.md" in contents
        else "",
        "surfaces": [suite_parts.surface_brief(each) for each in suite["apiSurfaces"]],
        "mock_surfaces": [each["id"] for each in suite["apiSurfaces"]],
        "mock_outcomes": mock_display.outcomes(),
        "imports": any(path in contents for path in suites.DEPENDENCY_FILES),
        "dependencies": _dependency_tree(suite),
        "problem": problem,
        "graph": graph(suite.get("topology", ())),
        "nodes": suite.get("topology", ()),
        "files": list(contents.values()),
        "file": chosen,
        "lines": display.numbered_lines(
            contents[chosen]["content"] if chosen else "",
            display.error_in(chosen, problem),
            contents[chosen]["language"] if chosen else "",
        ),
    }


def file_links(contents: Collection[str], *, page: str = "") -> FileLink:
    """Return what leads from a path in a README to the file on `page`, by default the same."""

    def link(path: str) -> str:
        name = posixpath.normpath(unquote(path)).lstrip("/")
        return f"{page}?{urlencode({'file': name})}#source-title" if name in contents else ""

    return link


def _dependency_tree(suite: Mapping[str, Any]) -> Sequence[suite_parts.DependencyNode]:
    if not suite.get("resolvedDependencies"):
        return ()
    known = {each["id"]: each for each in suites.list_suites()}
    return suite_parts.DependencyTree(known).below(suite)


def lock_fragment(suite_id: str) -> dict[str, object]:
    """Return what a new lock of a suite would change, or why there is none; raise SuiteNotFound.

    May ask registries, so it takes a while.
    """
    try:
        compared = suites.lock_difference(suite_id)
    except PlatformError as error:
        if error.problem_code not in _NO_NEW_LOCK:
            raise
        return {"suite_id": suite_id, "refused": error.detail}
    return {
        "suite_id": suite_id,
        "lock": compared.lock,
        "changes": compared.lock.changes,
        "difference": compared.difference,
        "is_different": any(compared.difference.values()),
        "present_problem": compared.problem,
    }


def surface_fragment(suite_id: str, surface_id: str) -> dict[str, object]:
    """Return the operations of a surface; raise SuiteNotFound, SurfaceNotFound."""
    surface = _surface(suite_id, surface_id)
    return {
        "suite_id": suite_id,
        "surface": surface,
        "rows": [suite_parts.operation_row(each) for each in surface["operations"]],
    }


def operation_fragment(suite_id: str, surface_id: str, operation_id: str) -> dict[str, object]:
    """Return one operation; raise SuiteNotFound, SurfaceNotFound, OperationNotFound."""
    surface = _surface(suite_id, surface_id)
    for operation in surface["operations"]:
        if operation["id"] == operation_id:
            return {
                "suite_id": suite_id,
                "surface": surface,
                "operation": operation,
                "mock": operation["mockMetadata"],
                "is_mocked": "mockPath" in operation,
                "form": call_form(operation),
            }
    raise OperationNotFound("there is no operation of that id")


def _surface(suite_id: str, surface_id: str) -> Mapping[str, Any]:
    for surface in suites.get_definition(suite_id)["apiSurfaces"]:
        if surface["id"] == surface_id:
            return surface
    raise SurfaceNotFound("there is no surface of that id")


def suite_runs(principal: Principal, suite_id: str) -> list[dict[str, object]]:
    """Return the newest runs of a suite that the reader may see, at most `RECENT_RUNS_OF_SUITE`."""
    now = timezone.now()
    return [
        {
            "run": run,
            "display": display.run_display(run["status"], failing=run["failing"]),
            "reason": display.reason_text(run["reason"]) if "reason" in run else "",
            "ago": display.ago(run["startedAt"], now),
        }
        for run in executions.suite_runs(principal, suite_id, limit=RECENT_RUNS_OF_SUITE)
    ]


def run_page(principal: Principal, run_id: str) -> dict[str, object]:
    """Return everything of a run except its streams; raise ExecutionNotFound."""
    run = executions.detail(principal, run_id, omit=frozenset({"events"}))
    nodes = {node["id"]: node for node in run["suite"].get("topology", ())}
    rows = [step_row(step, nodes.get(step["id"], {})) for step in run["steps"]]
    failures = failed_steps(rows)
    steps = [*failures, *(row for row in rows if row["step"]["status"] != "failed")]
    cases = executions.failed_cases(principal, run_id)
    for row in failures:
        row["reason"] = test_verdict(row["step"], run["artifacts"]) or row["reason"]
    return {
        "statuses": display.FOR_SCRIPTS,
        "run": run,
        "display": display.run_display(
            run["status"], failing=run["failing"], begun=has_healthy_step(run)
        ),
        "over": run["status"] in FINAL_EXECUTION,
        "reason": display.reason_text(run["reason"]) if "reason" in run else "",
        "isolated": display.is_isolated(run["backend"]),
        "steps": steps,
        "graph": graph(run["steps"]),
        "graph_open": len(run["steps"]) <= OPEN_GRAPH_NODES,
        "counts": display.counts(run["steps"]),
        "strip": display.strip(display.counts(run["steps"])),
        "first_failure": failures[0] if failures else None,
        "failures": failures,
        "last_words": last_words(run["id"], failures[0]) if failures else [],
        "failed_cases": cases,
        "artifacts": [
            {**artifact, "sizeText": display.size_text(artifact["size"])}
            for artifact in run["artifacts"]
        ],
        "tests": [one for one in run["artifacts"] if "testSummary" in one],
        "announcement": announcement(run),
        "mock_surfaces": mock_surfaces(run["suite"]),
        "mock_outcomes": mock_display.outcomes(),
    }


def mock_surfaces(suite: Mapping[str, Any]) -> list[str]:
    """Return the ids of the API surfaces that the nodes of a run's suite, or it itself, serve."""
    own = {surface["id"] for surface in suite.get("apiSurfaces", ())}
    served = {name for node in suite.get("topology", ()) for name in node.get("surfaces", ())}
    return sorted(own | served)


def run_row(item: Mapping[str, Any], now: datetime) -> dict[str, object]:
    """Return a row of the list of runs, from an item of the engine overview."""
    counts = display.overview_counts(item)
    return {
        "run": item,
        "display": display.run_display(
            item["status"], failing=item["failing"], begun=item["healthySteps"] > 0
        ),
        "ticks": display.ticks(counts),
        "words": ", ".join(f"{count} {status}" for status, count in counts.items()),
        "isolated": display.is_isolated(item["backend"]),
        "reason": display.reason_text(item["reason"]) if "reason" in item else "",
        "ago": display.ago(item["startedAt"], now),
        "active": item["status"] not in FINAL_EXECUTION,
    }


def step_row(step: Mapping[str, Any], node: Mapping[str, Any]) -> StepRow:
    """Return the row of a step; `node` is its declaration."""
    return {
        "step": step,
        "node": node,
        "display": display.step_display(step["status"]),
        "reason": display.reason_text(step["reason"]) if "reason" in step else "",
        "causes": display.cause_links(step.get("cause", [])),
        "took": display.duration(step.get("durationMs")),
        "ticks": "startedAt" in step and "finishedAt" not in step,
        "command": " ".join(node.get("command", ())),
        "usage": display.usage_text(step.get("usage", {})),
    }


def has_healthy_step(run: Mapping[str, Any]) -> bool:
    return any(step["status"] == "healthy" for step in run["steps"])


def graph(nodes: Sequence[Mapping[str, Any]]) -> layout.Drawing | None:
    """Return the drawing, or None for no nodes or too many."""
    return layout.draw(nodes) if 0 < len(nodes) <= MAX_DRAWN_NODES else None


def failed_steps(rows: Sequence[StepRow]) -> list[StepRow]:
    """Return the failed steps, those that fail the run first, then in the order they ended."""
    failed = [row for row in rows if row["step"]["status"] == "failed"]
    return sorted(
        failed,
        key=lambda row: (row["step"]["continueOnFailure"], row["step"].get("finishedAt", "")),
    )


def test_verdict(step: Mapping[str, Any], artifacts: Sequence[Mapping[str, Any]]) -> str:
    """Return `1 of 5 tests failed` for a step whose reports say so, else nothing."""
    if step.get("reason") not in ("test_failures", "exit_nonzero"):
        return ""
    summaries = [
        one["testSummary"]
        for one in artifacts
        if one["stepId"] == step["id"]
        and one["attempt"] == step["attempt"]
        and "testSummary" in one
    ]
    failed = sum(one["failures"] + one["errors"] for one in summaries)
    total = sum(one["total"] for one in summaries)
    return f"{failed} of {total} test{'' if total == 1 else 's'} failed" if failed else ""


def last_words(run_id: str, row: StepRow) -> list[tuple[int, str]]:
    """Return (line number, text) of what a failed step wrote to stderr in the end."""
    lines = executions.last_lines(run_id, row["step"]["id"], count=LAST_WORDS)
    return [(number, display.plain_text(line.text)[:LAST_WORDS_WIDTH]) for number, line in lines]


def announcement(run: Mapping[str, Any]) -> str:
    """Return the status of a run as one sentence for screen readers."""
    if run["status"] == "Queued" and "queuePosition" in run:
        return f"Queued, position {run['queuePosition']}"
    shown = display.run_display(run["status"], failing=run["failing"], begun=has_healthy_step(run))
    return f"{shown.label} after {run['duration']}"
