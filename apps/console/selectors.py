"""The contexts of the pages: values of other apps with the texts and marks to display."""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any
from urllib.parse import unquote, urlencode

from django.urls import reverse
from django.utils import timezone

from apps.accounts.api import Principal, Role
from apps.console.domain import display, layout, mock_display, run_parts, suite_parts
from apps.console.domain.graph_groups import group_siblings
from apps.console.domain.markdown import FileLink, markdown_html
from apps.console.domain.timeline_display import timeline_context
from apps.environments import api as environments
from apps.executions import api as executions
from apps.executions.api import FINAL_EXECUTION, STEPS_ONLY
from apps.shells import api as shells
from apps.suites import api as suites
from kernel import durations
from kernel.errors import PlatformError

RECENT_RUNS_OF_SUITE = 10
MAX_DRAWN_NODES = 500
_NO_NEW_LOCK = ("topology_invalid", "package_invalid", "registry_unreachable")


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


def suite_page(suite_id: str, *, file: str = "", tab: str = "") -> dict[str, object]:
    """Return a suite with its drawing and the lines of `file`; raise SuiteNotFound.

    Without `file`, show the file with the error, else suite.star. Without `tab`, show the source
    if a file is asked for or has an error, else runs and profiles.
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
    first = "source" if file or problem else "overview"
    return {
        "tabs": suite_parts.suite_tabs(_tab_counts(suite, contents), tab, first),
        "first_tab": first,
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
        "graph_address": reverse("console:suite-graph", args=[suite_id]),
        "nodes": suite.get("topology", ()),
        "files": list(contents.values()),
        "file": chosen,
        "lines": display.numbered_lines(
            contents[chosen]["content"] if chosen else "",
            display.error_in(chosen, problem),
            contents[chosen]["language"] if chosen else "",
        ),
    }


def _tab_counts(suite: Mapping[str, Any], paths: Collection[str]) -> dict[str, int]:
    """Return the tabs that a suite has because of what is in it, with how much that is."""
    nodes = len(suite.get("topology", ()))
    imported = len(suite.get("resolvedDependencies") or ())
    has_imports = imported or any(path in paths for path in suites.DEPENDENCY_FILES)
    return {
        **({"readme": 0} if "README.md" in paths else {}),
        **({"topology": nodes} if nodes else {}),
        "api": len(suite["apiSurfaces"]),
        **({"imports": imported} if has_imports else {}),
        "source": len(suite["sourceFiles"]),
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


def suite_runs(principal: Principal, suite_id: str) -> list[dict[str, object]]:
    """Return the newest runs of a suite that the reader may see, at most `RECENT_RUNS_OF_SUITE`."""
    now = timezone.now()
    return [
        {
            "run": run,
            "display": display.run_display(run["status"], failing=run["failing"]),
            "reason": display.run_reason(run),
            "ago": display.ago(run["startedAt"], now),
            "trigger": display.trigger_text(run),
        }
        for run in executions.suite_runs(principal, suite_id, limit=RECENT_RUNS_OF_SUITE)
    ]


def run_page(principal: Principal, run_id: str) -> dict[str, object]:
    """Return everything of a run except its streams; raise ExecutionNotFound."""
    run = executions.detail(principal, run_id, omit=frozenset({"events"}))
    nodes = {node["id"]: node for node in run["suite"].get("topology", ())}
    offer = shells.shell_offer(principal, run_id)
    rows = [
        run_parts.step_row(step, nodes.get(step["id"], {}), enterable=step["id"] in offer.steps)
        for step in run["steps"]
    ]
    failures = run_parts.failed_steps(rows)
    steps = [*failures, *(row for row in rows if row["step"]["status"] != "failed")]
    cases = executions.failed_cases(principal, run_id)
    return {
        "statuses": display.FOR_SCRIPTS,
        "run": run,
        "display": display.run_display(
            run["status"], failing=run["failing"], begun=run_parts.has_healthy_step(run)
        ),
        "over": run["status"] in FINAL_EXECUTION,
        "verdict": run["verdict"],
        "verdict_of_run": run.get("reason", "step_failed") != "step_failed",
        "verdict_steps": run_parts.verdict_steps(run["verdict"]),
        "isolated": display.is_isolated(run["backend"]),
        "keep": run.get("keep"),
        "keep_for": durations.format_duration(run.get("keep", {}).get("keepAliveMs", 0) / 1000),
        "may_rerun": principal.has_role(Role.RUNNER),
        "may_repeat": principal.has_role(Role.RUNNER) and run_parts.can_repeat(run),
        "steps": steps,
        "graph": graph(run["steps"]),
        "graph_address": reverse("console:run-graph", args=[run_id]),
        "counts": display.counts(run["steps"]),
        "strip": display.strip(display.counts(run["steps"])),
        "first_failure": failures[0] if failures else None,
        "first_tab": "why" if failures or "reason" in run else "log",
        "failed_cases": cases,
        "artifacts": [
            run_parts.artifact_row(each)
            for each in sorted(run["artifacts"], key=run_parts.artifact_place)
        ],
        "has_stored_artifacts": any("expiredAt" not in each for each in run["artifacts"]),
        "tests": run_parts.test_reports(run["artifacts"]),
        "has_tests": run_parts.has_tests(rows),
        "missing_artifacts": run_parts.missing_artifacts(rows),
        "announcement": run_parts.announcement(run),
        "attempts": display.attempt_marks(run["attempts"], run_id),
        "since_green": since_green(principal, run),
        "other_profiles": [
            each for each in run["suite"].get("profiles", ()) if each["fileName"] != run["profile"]
        ],
        "mock_surfaces": mock_surfaces(run["suite"]),
        "mock_outcomes": mock_display.outcomes(),
        "may_shell": offer.is_allowed,
        "environment": environment_words(principal, run),
    }


def environment_words(principal: Principal, run: Mapping[str, Any]) -> str:
    """Return what a run has on a machine, "" for nothing.

    Runners look only while somebody watches, so of a run that goes on it need not be known.
    """
    known = environments.environment_of_run(principal, run["id"])
    if known:
        return str(known["summary"])
    goes_on = run["status"] in ("Booting", "Canceling")
    return "resources on the machine" if goes_on and display.is_isolated(run["backend"]) else ""


def since_green(principal: Principal, run: Mapping[str, Any]) -> dict[str, object] | None:
    """Return what differs from the last healthy run before a failed one; None for other runs."""
    if run["status"] != "Failed":
        return None
    found = executions.since_green(principal, run["id"])
    rows = [
        (executions.difference_name(each), *executions.difference_sides(each))
        for each in found["differences"]
    ]
    return {**found, "rows": rows}


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
        "reason": display.run_reason(item),
        "ago": display.ago(item["startedAt"], now),
        "by": " · ".join(dict.fromkeys(filter(None, _launchers(item)))),
        "active": item["status"] not in FINAL_EXECUTION,
    }


def _launchers(item: Mapping[str, Any]) -> tuple[str, ...]:
    """Return who launched a run: its author, the CI job, and what kind of launch it was."""
    return item.get("author", ""), item.get("launchedBy", ""), item["trigger"]


def graph(
    nodes: Sequence[Mapping[str, Any]], opened: Collection[str] = ()
) -> layout.Drawing | None:
    """Return the drawing with siblings as one node, or None for no nodes or too many.

    The groups named in `opened` are drawn as their members.
    """
    if not 0 < len(nodes) <= MAX_DRAWN_NODES:
        return None
    return layout.draw(group_siblings(nodes, opened))


def run_graph(principal: Principal, run_id: str, opened: Collection[str]) -> dict[str, object]:
    """Return the drawing of a run with these groups open; raise ExecutionNotFound."""
    run = executions.detail(principal, run_id, omit=STEPS_ONLY)
    return {
        "graph": graph(run["steps"], opened),
        "graph_address": reverse("console:run-graph", args=[run_id]),
    }


def run_timeline(principal: Principal, run_id: str) -> dict[str, object]:
    """Return the timeline of a run as drawn; raise ExecutionNotFound."""
    return timeline_context(executions.timeline(principal, run_id))


def artifact_preview(principal: Principal, run_id: str, artifact_id: str) -> dict[str, object]:
    """Return the preview of an artifact; raise ExecutionNotFound, ArtifactNotFound or …Expired."""
    address = reverse("executions:executions-artifact-image", args=[run_id, artifact_id])
    return {
        "preview": executions.artifact_preview(principal, run_id, artifact_id),
        "artifact_id": artifact_id,
        "image_address": address,
    }


def suite_graph(suite_id: str, opened: Collection[str]) -> dict[str, object]:
    """Return the drawing of a suite with these groups open; raise SuiteNotFound."""
    return {
        "graph": graph(suites.get_definition(suite_id).get("topology", ()), opened),
        "graph_address": reverse("console:suite-graph", args=[suite_id]),
    }
