"""Names of the two streams of a run, and of the nudges that tell of runs."""

from __future__ import annotations

from typing import Final

OVERVIEW_NUDGE: Final = "overview"
WORK_NUDGE: Final = "work"


def events_topic(run_id: str) -> str:
    return f"execution-events:{run_id}"


def logs_topic(run_id: str) -> str:
    return f"execution-logs:{run_id}"
