"""What the pages show: wire values of other apps, with the words and marks that people read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from django.utils import timezone

from apps.accounts.api import Principal
from apps.console.domain import durations, layout, looks, source_lines, ticks
from apps.executions import api as executions
from apps.suites import api as suites

RECENT_RUNS = 50
MAX_DRAWN_NODES = 500


def home(principal: Principal) -> dict[str, Any]:
    """`summary` and `runs` (newest first, at most `RECENT_RUNS`) of the engine overview."""
    overview = executions.overview(principal)
    now = timezone.now()
    return {
        "summary": overview["summary"],
        "runs": [run_row(item, now) for item in overview["executions"][:RECENT_RUNS]],
    }


def launch_suites() -> list[dict[str, Any]]:
    """The launchable suites with their profiles and backends (reference: control-plane 11.1)."""
    return [
        suite | {"backends": [_backend(backend) for backend in suite["backends"]]}
        for suite in executions.launch_suites()
    ]


def suite_list() -> list[dict[str, Any]]:
    """Every suite, broken ones too, with the number of its steps and its error."""
    return [
        suite | {"steps": len(suite.get("topology", ())), "problem": suite.get("topologyError")}
        for suite in suites.list_suites()
    ]


def suite_page(suite_id: str, file: str) -> dict[str, Any]:
    """One suite: definition, drawing, source of `file` (else the file at fault, else suite.star).

    Raises SuiteNotFound.
    """
    suite = suites.get_definition(suite_id)
    problem = suite.get("topologyError")
    contents = {source["path"]: source for source in suite["sourceFiles"]}
    chosen = _chosen_file(file, contents, problem)
    return {
        "suite": suite,
        "problem": problem,
        "graph": graph(suite.get("topology", ())),
        "nodes": suite.get("topology", ()),
        "files": list(contents.values()),
        "file": chosen,
        "lines": source_lines.numbered(
            contents[chosen]["content"] if chosen else "", source_lines.error_of(chosen, problem)
        ),
    }


def _chosen_file(
    wanted: str, contents: Mapping[str, Any], problem: Mapping[str, Any] | None
) -> str:
    candidates = (wanted, (problem or {}).get("file", ""), "suite.star", next(iter(contents), ""))
    return next(path for path in candidates if path in contents or (not path and not contents))


def run_page(principal: Principal, run_id: str) -> dict[str, Any]:
    """Everything of one run but its streams. Raises ExecutionNotFound."""
    run = executions.detail(principal, run_id, omit=frozenset({"events"}))
    nodes = {node["id"]: node for node in run["suite"].get("topology", ())}
    steps = [step_row(step, nodes.get(step["id"], {})) for step in run["steps"]]
    return {
        "run": run,
        "look": looks.run_look(run["status"], failing=run["failing"]),
        "over": run["status"] in looks.RUN_OVER,
        "reason": looks.reason_text(run["reason"]) if "reason" in run else "",
        "isolated": looks.is_isolated(run["backend"]),
        "steps": steps,
        "graph": graph(run["steps"]),
        "counts": looks.counts(run["steps"]),
        "strip": ticks.strip(looks.counts(run["steps"])),
        "first_failure": first_failure(steps),
        "artifacts": [_artifact(artifact) for artifact in run["artifacts"]],
        "tests": [one for one in run["artifacts"] if "testSummary" in one],
        "announcement": announcement(run),
    }


def run_row(item: Mapping[str, Any], now: datetime) -> dict[str, Any]:
    """A line of the list of runs, from an item of the engine overview."""
    counts = looks.overview_counts(item)
    return {
        "run": item,
        "look": looks.run_look(item["status"], failing=item["failing"]),
        "ticks": ticks.ticks(counts),
        "counts": counts,
        "isolated": looks.is_isolated(item["backend"]),
        "reason": looks.reason_text(item["reason"]) if "reason" in item else "",
        "ago": durations.ago(item["startedAt"], now),
        "active": item["status"] not in looks.RUN_OVER,
    }


def step_row(step: Mapping[str, Any], node: Mapping[str, Any]) -> dict[str, Any]:
    """A step with the words for its reason, causes and durations; `node` is its topology node."""
    return {
        "step": step,
        "node": node,
        "look": looks.step_look(step["status"]),
        "reason": looks.reason_text(step["reason"]) if "reason" in step else "",
        "causes": looks.cause_text(step.get("cause", [])),
        "took": durations.short(step.get("durationMs")),
        "command": " ".join(node.get("command", ())),
        "usage": durations.usage(step.get("usage", {})),
    }


def graph(nodes: Sequence[Mapping[str, Any]]) -> layout.Drawing | None:
    """The drawing, or None when there is nothing to draw or too much to be of use."""
    return layout.draw(nodes) if 0 < len(nodes) <= MAX_DRAWN_NODES else None


def first_failure(steps: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """The failed step that ended first, else None; those that may fail come last."""
    failed = [row for row in steps if row["step"]["status"] == "failed"]
    return min(failed, key=_failure_order, default=None)


def _failure_order(row: Mapping[str, Any]) -> tuple[bool, str]:
    return row["step"]["continueOnFailure"], row["step"].get("finishedAt", "")


def announcement(run: Mapping[str, Any]) -> str:
    """One sentence for readers who listen."""
    if run["status"] == "Queued" and "queuePosition" in run:
        return f"Queued, position {run['queuePosition']}"
    look = looks.run_look(run["status"], failing=run["failing"])
    return f"{look.label} after {run['duration']}"


def _artifact(artifact: Mapping[str, Any]) -> dict[str, Any]:
    return {**artifact, "sizeText": durations.size(artifact["size"])}


def _backend(backend: Mapping[str, Any]) -> dict[str, Any]:
    return {**backend, "isolated": looks.is_isolated(backend["label"])}
