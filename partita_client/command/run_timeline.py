"""`run timeline`: a line per step, with a bar over the time of the run; for both halves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from partita_client.command.output import (
    align_columns,
    printable,
    say,
    show_document,
    terminal_columns,
)
from partita_client.command.parser import CommandSession, CommandVerb, add_run
from partita_client.durations import rounded_duration
from partita_client.exit_codes import ExitCode

# each is one character on every terminal; what comes later in this order covers what is before it
MARKS: Final = {"queued": ".", "start": ":", "pull": "~", "ready": "-", "running": "#"}
_KINDS: Final = tuple(MARKS)
_MARK_OF: Final = tuple(MARKS.values())
_NAME_MAX: Final = 32
_BAR_MIN, _BAR_MAX = 20, 80
_BESIDE: Final = 22  # columns for the mark of the path, the spaces and the duration


def _add_timeline(parser: Any) -> None:
    add_run(parser)
    parser.add_argument(
        "--critical", action="store_true", help="only the steps of the critical path"
    )


def show_timeline(session: CommandSession) -> int:
    body = session.client.timeline(session.options.run)
    if not session.is_for_people:
        show_document(body, session.form)
        return ExitCode.OK
    width = terminal_columns()
    for line in timeline_lines(body, width=width, only_critical=session.options.critical):
        say(line)
    return ExitCode.OK


def timeline_lines(body: Any, *, width: int, only_critical: bool = False) -> list[str]:
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
        printable(f"{body['id']}: {rounded_duration(body['durationMs'])}. {body['sentence']}"),
        *align_columns(rows),
        *([f"{rest} step{'' if rest == 1 else 's'} not queued"] if rest else []),
        f"{legend}  * critical path",
    ]


def bar(step: Any, duration_ms: int, width: int) -> str:
    """Return what the step did in each of `width` equal parts of the run; a space for nothing."""
    cells = [" "] * width
    for kind, start_ms, length_ms in sorted(_segments(step)):
        first = min(width - 1, start_ms * width // max(1, duration_ms))
        last = max(first + 1, -(-(start_ms + length_ms) * width // max(1, duration_ms)))
        cells[first:last] = [_MARK_OF[kind]] * (min(width, last) - first)
    return "".join(cells)


def _segments(step: Any) -> Iterator[tuple[int, int, int]]:
    """Yield kind (its place in `MARKS`), start and length; `running` for an instant."""
    for attempt in step["attempts"]:
        for part in attempt["segments"]:
            kind = part["kind"] if part["kind"] in MARKS else "running"  # of a newer server
            yield _KINDS.index(kind), part["startMs"], part["lengthMs"]
        if not attempt["segments"]:
            yield _KINDS.index("running"), attempt["startMs"], 0


def _took(step: Any) -> str:
    attempts = step["attempts"]
    took = rounded_duration(sum(attempt["lengthMs"] for attempt in attempts))
    return took if len(attempts) == 1 else f"{took}, {len(attempts)} attempts"


def _shorten(name: str) -> str:
    return name if len(name) <= _NAME_MAX else f"…{name[1 - _NAME_MAX :]}"


VERBS: Final = (
    CommandVerb(
        name="timeline",
        text="when each step waited, was pulled, got ready and ran, and what the run waited for",
        run=show_timeline,
        add_arguments=_add_timeline,
        formats=("text", "json", "yaml"),
    ),
)
