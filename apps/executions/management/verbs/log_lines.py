"""`run logs`: the log lines of a run, those of some steps, and those that match."""

from __future__ import annotations

import json
import sys
from itertools import chain
from typing import Any

import msgspec
from rich.console import Console

from apps.executions import api as executions
from apps.executions import terminal_view
from apps.executions.domain.events import logs_topic
from apps.executions.domain.states import FINAL_EXECUTION
from apps.executions.log_reader import LogReader
from apps.executions.management.verbs.arguments import Options, add_run
from apps.executions.selectors.detail import NO_PARTS
from apps.executions.selectors.logs import (
    PATTERN_MAX_CHARACTERS,
    LineFilter,
    SearchPatternInvalid,
    compile_pattern,
)
from apps.operations.api import ExitCode, VerbCommand, printable
from kernel.errors import InvalidInput, NotFound


def add_verbs(command: VerbCommand, verbs: Any) -> None:
    logs = command.add_verb(verbs, "logs", show_logs, "print a run's log lines")
    add_run(logs)
    logs.add_argument("-f", "--follow", action="store_true", help="go on until the run is over")
    steps = logs.add_mutually_exclusive_group()
    steps.add_argument("--source", action="append", default=[], help="only this step; repeatable")
    steps.add_argument("--failed", action="store_true", help="only the steps that failed")
    only = logs.add_mutually_exclusive_group()
    only.add_argument(
        "--search", metavar="TEXT", help="only lines with this text, in upper or lower case"
    )
    only.add_argument("--regex", metavar="PATTERN", help="only lines that match this RE2 pattern")


def show_logs(options: Options) -> int:
    run_id = options["run"]
    sources = _log_sources(run_id, options)
    if sources is None:
        sys.stderr.write("no step of this run has failed\n")
        return ExitCode.OK
    wanted = line_filter(sources, search=options["search"], regex=options["regex"])
    reader = LogReader(logs_topic(run_id))
    console, colours = Console(highlight=False), dict[str, str]()
    try:
        while True:
            over = executions.run_detail(run_id, NO_PARTS)["status"] in FINAL_EXECUTION
            lines = chain.from_iterable(reader.batches())
            for line in (each for each in lines if wanted.find(each) is not None):
                if options["output"] == "json":  # one object a line: a log has no end to wait for
                    text = json.dumps(msgspec.to_builtins(line), ensure_ascii=False)
                elif console.is_terminal:
                    console.print(terminal_view.render_line(line, colours), soft_wrap=True)
                    continue
                else:
                    text = f"{line.timestamp} [{line.source}] {printable(line.text)}"
                sys.stdout.write(f"{text}\n")
            sys.stdout.flush()
            if over or not options["follow"]:
                return ExitCode.OK
            reader.wait()
    finally:
        reader.close()


def _log_sources(run_id: str, options: Options) -> frozenset[str] | None:
    """Return the steps whose lines to print, empty for all; None if none of those asked for failed.

    Raise NotFound for a step that the run does not have.
    """
    steps = executions.run_detail(run_id, executions.STEPS_ONLY)["steps"]
    if options["failed"] and options["follow"]:
        raise InvalidInput("--failed prints what has failed so far: leave out --follow")
    if options["failed"]:
        return frozenset(step["id"] for step in steps if step["status"] == "failed") or None
    known = ["execution", *(step["id"] for step in steps)]
    sources = frozenset(options["source"])
    if unknown := sorted(sources.difference(known)):  # a name that no line can have
        raise NotFound(f"the run has no step {unknown[0]!r}; known: {', '.join(known)}")
    return sources


def line_filter(sources: frozenset[str], *, search: str | None, regex: str | None) -> LineFilter:
    """Return the filter of `--source`, `--search` and `--regex`; raise InvalidInput."""
    query = regex or search or ""
    if len(query) > PATTERN_MAX_CHARACTERS:
        most = PATTERN_MAX_CHARACTERS
        raise InvalidInput(f"--regex and --search take at most {most} characters")
    try:
        pattern = compile_pattern(query, regex=bool(regex), case=False)
    except SearchPatternInvalid as error:
        raise InvalidInput(f"--regex is not a valid RE2 pattern: {error}") from None
    return LineFilter(pattern=pattern, sources=sources)
