"""What the page of the environments displays of a snapshot (reference: control-plane 17)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from apps.console.domain.display import StatusDisplay, ago, size_text, usage_text
from apps.environments.api import (
    ALL_ENVIRONMENTS,
    CleanupResult,
    ContainerDocument,
    EnvironmentDocument,
    EnvironmentStatus,
    ReapDocument,
    SnapshotDocument,
    SnapshotSummary,
    UsageDocument,
)

STATUSES: Final = {"": "Any status", **{str(status): str(status) for status in EnvironmentStatus}}
MEANINGS: Final = {
    "Zombie": "Its run is over or unknown, or its supervisor is gone, but it is still running.",
    "Degraded": "A container is down while the run is still in progress.",
    "Running": "Its containers are running.",
    "Residual": "Nothing is running; you can remove what is left.",
    "Unknown": "Its resources do not show its state.",
}
REAP_WORDS: Final = {
    "marking": "live runs are canceled first",
    "ready": "waits for a runner",
}


def environment_display(status: str) -> StatusDisplay:
    return StatusDisplay(key=status.lower(), label=status)


def environment_row(
    environment: EnvironmentDocument, snapshot: SnapshotDocument, now: datetime, workspace: str = ""
) -> dict[str, object]:
    """Return a row of the list with its details; `workspace` is the name, if it is to be shown."""
    usage = environment["resourceUsage"]
    limit = usage["memoryLimitBytes"]
    return {
        "environment": environment,
        "display": environment_display(environment["status"]),
        "meaning": MEANINGS.get(environment["status"], ""),
        "ago": ago(environment["startedAt"], now) if "startedAt" in environment else "",
        "usage": _usage_words(usage),
        "limit": f"{usage['memoryPercent']:.0f} % of {size_text(limit)}" if limit else "",
        "workspace": workspace,
        "why": zombie_words(environment, snapshot["updatedAt"]),
        "is_being_removed": any(
            reap["target"] in (environment["sandboxId"], ALL_ENVIRONMENTS)
            for reap in snapshot["reaps"]
            if reap["state"] != "done"
        ),
        "containers": [container_row(each) for each in environment["containers"]],
    }


def zombie_words(environment: EnvironmentDocument, looked_at: str) -> list[dict[str, str]]:
    """Return why it is a zombie as one sentence: texts, some with a time after them."""
    if not environment["isZombie"]:
        return []
    reason = environment.get("zombieReason", "its supervisor is gone")
    text = f"It is a zombie because {reason}, and its containers are still running"
    if "zombieSince" not in environment:
        return [{"text": f"{text}."}]
    return [
        {"text": f"{text}: first seen at ", "time": environment["zombieSince"]},
        {"text": " and still at ", "time": looked_at},
        {"text": "."},
    ]


def container_row(container: ContainerDocument) -> dict[str, object]:
    exit_code = container.get("exitCode")
    return {
        "container": container,
        "exit_code": "" if exit_code is None else str(exit_code),
        "ports": ", ".join(container["ports"]),
        "usage": _usage_words(container["usage"]) if "usage" in container else "",
        "is_bad": container["state"] in ("dead", "restarting") or exit_code not in (None, 0),
    }


def reap_rows(snapshot: SnapshotDocument) -> list[dict[str, object]]:
    """Return the removals under way, and those that lately ended with warnings."""
    return [
        {"reap": each, "words": _reap_words(each)}
        for each in snapshot["reaps"]
        if each["state"] != "done" or each["warnings"]
    ]


def _reap_words(reap: ReapDocument) -> str:
    if reap["state"] == "done":
        return f"removed {removal_words(reap['result'])}" if "result" in reap else "ended"
    if reap["state"] == "sweeping":
        return f"{reap['gone']} of {reap['marked']} gone"
    return REAP_WORDS[reap["state"]]


def summary_facts(summary: SnapshotSummary) -> list[dict[str, str]]:
    """Return the figures of a snapshot in their order, each with the status that it counts."""
    return [
        {"label": "Active", "value": str(summary["activeSandboxes"])},
        {"label": "Zombies", "value": str(summary["zombieSandboxes"]), "status": "Zombie"},
        {"label": "Containers", "value": str(summary["containers"])},
        {"label": "Networks", "value": str(summary["networks"])},
        {"label": "Volumes", "value": str(summary["volumes"])},
        {"label": "CPU", "value": f"{summary['totalCpuPercent']:.0f} %"},
        {"label": "Memory", "value": size_text(summary["totalMemoryBytes"])},
    ]


def resource_names(environment: EnvironmentDocument) -> list[dict[str, object]]:
    """Return kind (`Containers`, …) and names of what an environment has, without empty kinds."""
    names = {
        "Containers": [each["name"] for each in environment["containers"]],
        "Networks": [each["name"] for each in environment["networks"]],
        "Volumes": [each["name"] for each in environment["volumes"]],
    }
    return [{"kind": kind, "names": found} for kind, found in names.items() if found]


def removal_words(result: CleanupResult) -> str:
    """Return the counts of a cleanup as `2 containers, 1 network`; `nothing` without any."""
    counts = {
        "container": result["removedContainers"],
        "network": result["removedNetworks"],
        "volume": result["removedVolumes"],
    }
    parts = [f"{n} {kind}{'' if n == 1 else 's'}" for kind, n in counts.items() if n]
    return ", ".join(parts) or "nothing"


def removed_count(result: CleanupResult) -> int:
    return result["removedContainers"] + result["removedNetworks"] + result["removedVolumes"]


def sum_results(
    results: Sequence[CleanupResult], warnings: Sequence[str], *, dry_run: bool
) -> CleanupResult:
    """Return several cleanups as one document: their counts, their warnings and these."""
    return {
        "scope": "sandbox",
        "target": ", ".join(each["target"] for each in results),
        "removedContainers": sum(each["removedContainers"] for each in results),
        "removedNetworks": sum(each["removedNetworks"] for each in results),
        "removedVolumes": sum(each["removedVolumes"] for each in results),
        "warnings": [*(text for each in results for text in each["warnings"]), *warnings],
        "dryRun": dry_run,
    }


def _usage_words(usage: UsageDocument) -> str:
    """Return CPU and memory, "" while neither is known."""
    if not usage["cpuPercent"] and not usage["memoryBytes"]:
        return ""
    return usage_text(
        {"cpuPercent": usage["cpuPercent"], "memoryBytes": float(usage["memoryBytes"])}
    )
