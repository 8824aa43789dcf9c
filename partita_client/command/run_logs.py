"""`run logs`: the lines of a run, those so far or until it is over."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

from partita_client.command.output import has_colors, note, printable, say, show_document
from partita_client.command.parser import CommandSession, CommandVerb, add_run, seconds
from partita_client.command.run_views import output_line, source_width
from partita_client.errors import ApiProblem, BadConfiguration, WaitTimeout
from partita_client.exit_codes import ExitCode

if TYPE_CHECKING:  # dictionaries by another name: a command does without
    from partita_client.documents import OutputLine, RunReport

_PATTERN_MAX: Final = 500
Wanted = Callable[["OutputLine"], bool]


def _add_logs(parser: Any) -> None:
    add_run(parser)
    parser.add_argument("-f", "--follow", action="store_true", help="go on until the run is over")
    steps = parser.add_mutually_exclusive_group()
    steps.add_argument("--source", action="append", default=[], help="only this step; repeatable")
    steps.add_argument("--failed", action="store_true", help="only the steps that failed")
    only = parser.add_mutually_exclusive_group()
    only.add_argument(
        "--search", metavar="TEXT", help="only lines with this text, in upper or lower case"
    )
    only.add_argument("--regex", metavar="PATTERN", help="only lines that match this pattern")
    parser.add_argument("--timeout", type=seconds, help="stop after, such as 5m (exit 13)")


def show_logs(session: CommandSession) -> int:
    options = session.options
    if options.follow and session.jq is not None:
        raise BadConfiguration(
            "--jq waits for the end of what it filters: leave out --follow",
            advice=f"partita run logs {options.run} -f -o ndjson | jq EXPRESSION",
        )
    run = session.client.run(options.run, parts=("steps",))
    sources = _chosen_sources(run, options)
    if sources is None:
        note("no step of this run has failed")
        return ExitCode.OK
    write = _line_format(session, run)
    try:
        for line in _chosen_lines(session, run, sources):
            write(line)
    except KeyboardInterrupt:
        note(f"\nnot followed any longer; again: partita run logs {run['id']} -f")
        return ExitCode.STILL_RUNNING
    except WaitTimeout:
        note(f"not followed any longer; again: partita run logs {run['id']} -f")
        return ExitCode.TIMEOUT
    return ExitCode.OK


def _chosen_sources(run: RunReport, options: Any) -> frozenset[str] | None:
    """Return the steps whose lines to print, empty for all; None if none of those failed.

    Raise ApiProblem (not found) for a step that the run does not have.
    """
    steps = run["steps"]
    if options.failed and options.follow:
        raise BadConfiguration("--failed prints what has failed so far: leave out --follow")
    if options.failed:
        return frozenset(step["id"] for step in steps if step["status"] == "failed") or None
    known = ["execution", *(step["id"] for step in steps)]
    if unknown := sorted(set(options.source).difference(known)):
        names = ", ".join(known)
        detail = f"the run has no step {unknown[0]!r}; known: {names}"
        raise ApiProblem(status=404, code="not_found", detail=detail)
    return frozenset(options.source)


def _chosen_lines(
    session: CommandSession, run: RunReport, sources: frozenset[str]
) -> Iterator[OutputLine]:
    options = session.options
    is_wanted = _text_filter(options)
    if not options.follow and not run["lastLogId"]:
        return
    frames = session.client.log_frames(run["id"], timeout_s=options.timeout)
    for frame in frames:
        if not frame.kind:
            line: OutputLine = frame.data["line"]
            if (not sources or line["source"] in sources) and is_wanted(line):
                yield line
        last = frame.data.get("to" if frame.kind == "gap" else "id", 0)
        if frame.kind == "gap":
            note(f"lines {frame.data['from']} to {last} can no longer be had")
        if not options.follow and last >= run["lastLogId"]:
            return


def _text_filter(options: Any) -> Wanted:
    query = options.regex or options.search or ""
    if len(query) > _PATTERN_MAX:
        raise BadConfiguration(f"--regex and --search take at most {_PATTERN_MAX} characters")
    if options.regex:
        try:
            pattern = re.compile(options.regex, re.IGNORECASE)
        except re.error as error:
            raise BadConfiguration(f"--regex is not a valid pattern: {error}") from None
        return lambda line: pattern.search(line["text"]) is not None
    text = query.casefold()
    return lambda line: text in line["text"].casefold()


def _line_format(session: CommandSession, run: RunReport) -> Callable[[OutputLine], None]:
    """Return what writes a line: one object a line for programs, as a log has no end."""
    if not session.is_for_people:
        return lambda line: show_document(line, "ndjson")
    width, colors, is_colored = source_width(run["steps"]), dict[str, str](), has_colors(sys.stdout)

    def write(line: OutputLine) -> None:
        if is_colored:
            say(output_line(line, colors, width))
        else:
            say(printable(f"{line['timestamp']} [{line['source']}] {line['text']}"))
        if session.options.follow:
            sys.stdout.flush()

    return write


VERBS = (
    CommandVerb(
        name="logs",
        text="print a run's log lines",
        run=show_logs,
        add_arguments=_add_logs,
        formats=("text", "json", "ndjson"),
    ),
)
