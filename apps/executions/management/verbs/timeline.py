"""`run timeline`: a line per step, with a bar over the time of the run."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from typing import Any, Final

from apps.executions.domain.critical_path import TimelineBody, rounded_duration
from apps.executions.domain.timeline import SEGMENT_KINDS, SegmentKind, StepTimeline
from apps.executions.management.verbs.arguments import Options, add_run
from apps.executions.selectors.timeline import run_timeline
from apps.operations.api import ExitCode, VerbCommand, align_columns, print_json, printable

# each is one character on every terminal; what comes later in this order covers what is before it
MARKS: Final[dict[SegmentKind, str]] = {
    "queued": ".",
    "start": ":",
    "pull": "~",
    "ready": "-",
    "running": "#",
}
_NAME_MAX: Final = 32
_BAR_MIN, _BAR_MAX = 20, 80
_BESIDE: Final = 22  # columns for the mark of the path, the spaces and the duration


def add_verbs(command: VerbCommand, verbs: Any) -> None:
    text = "when each step waited, was pulled, got ready and ran, and what the run waited for"
    timeline = command.add_verb(verbs, "timeline", show_timeline, text)
    add_run(timeline)
    timeline.add_argument(
        "--critical", action="store_true", help="only the steps of the critical path"
    )


def show_timeline(options: Options) -> int:
    body = run_timeline(options["run"])
    if options["output"] == "json":
        print_json(body)
        return ExitCode.OK
    width = shutil.get_terminal_size().columns
    lines = timeline_lines(body, width=width, only_critical=options["critical"])
    sys.stdout.writelines(f"{line}\n" for line in lines)
    return ExitCode.OK


def timeline_lines(body: TimelineBody, *, width: int, only_critical: bool = False) -> list[str]:
    """Return the sentence, a line per step that was queued, and the legend.

    The steps of the critical path have a `*`.
    """
    critical = {link["stepId"] for link in body["criticalPath"]}
    steps = [step for step in body["steps"] if step["id"] in critical or not only_critical]
    names = {step["id"]: _shorten(printable(step["id"])) for step in steps}
    longest = max(map(len, names.values()), default=0)
    bar_width = min(_BAR_MAX, max(_BAR_MIN, width - longest - _BESIDE))
    rows = [
        (
            "*" if step["id"] in critical else " ",
            names[step["id"]],
            f"|{bar(step, body['durationMs'], bar_width)}|",
            _took(step),
        )
        for step in steps
        if step["attempts"]
    ]
    rest = sum(not step["attempts"] for step in steps)
    legend = "  ".join(f"{mark} {kind}" for kind, mark in MARKS.items())
    return [
        f"{body['id']}: {rounded_duration(body['durationMs'])}. {printable(body['sentence'])}",
        *align_columns(rows),
        *([f"{rest} step{'' if rest == 1 else 's'} not queued"] if rest else []),
        f"{legend}  * critical path",
    ]


def bar(step: StepTimeline, duration_ms: int, width: int) -> str:
    """Return what the step did in each of `width` equal parts of the run; a space for nothing."""
    cells = [" "] * width
    for kind, start_ms, length_ms in sorted(_segments(step)):
        first = min(width - 1, start_ms * width // max(1, duration_ms))
        last = max(first + 1, -(-(start_ms + length_ms) * width // max(1, duration_ms)))
        cells[first:last] = [MARKS[SEGMENT_KINDS[kind]]] * (min(width, last) - first)
    return "".join(cells)


def _segments(step: StepTimeline) -> Iterator[tuple[int, int, int]]:
    """Yield kind (its place in `SEGMENT_KINDS`), start and length; `running` for an instant."""
    for attempt in step["attempts"]:
        for part in attempt["segments"]:
            yield SEGMENT_KINDS.index(part["kind"]), part["startMs"], part["lengthMs"]
        if not attempt["segments"]:
            yield SEGMENT_KINDS.index("running"), attempt["startMs"], 0


def _took(step: StepTimeline) -> str:
    attempts = step["attempts"]
    took = rounded_duration(sum(attempt["lengthMs"] for attempt in attempts))
    return took if len(attempts) == 1 else f"{took}, {len(attempts)} attempts"


def _shorten(name: str) -> str:
    return name if len(name) <= _NAME_MAX else f"…{name[1 - _NAME_MAX :]}"
