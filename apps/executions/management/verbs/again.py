"""`run again`: a step once more in the kept environment of its run."""

from __future__ import annotations

import argparse
import sys
import threading
from argparse import ArgumentTypeError
from pathlib import Path
from typing import Any, Final

from apps.accounts import api as accounts
from apps.executions.domain.repeats import RepeatRequest, repeat_topic
from apps.executions.log_reader import LogReader
from apps.executions.management.verbs.arguments import Options, add_run, seconds
from apps.executions.management.verbs.launch import start_timer
from apps.executions.selectors.repeats import RepeatDocument, find_repeat, repeat_detail
from apps.executions.services import repeats
from apps.operations.api import ExitCode, VerbCommand, print_json, printable
from kernel.errors import InvalidInput
from readers.folder import BrokenPackage, read_folder

_INFRASTRUCTURE: Final = frozenset(
    {"agent_lost", "internal_error", "runtime_unavailable", "secret_unresolved"}
    | {"unschedulable", "quota_exceeded", "admission_refused", "container_config"}
    | {"init_failed", "evicted", "preempted", "node_lost"}
)
_ENDS: Final = {"succeeded": ExitCode.OK, "canceled": ExitCode.RUN_CANCELED}


def add_verbs(command: VerbCommand, verbs: Any) -> None:
    text = "run a step once more in the kept environment of its run"
    again = command.add_verb(verbs, "again", repeat_step, text)
    add_run(again)
    again.add_argument("step", metavar="STEP", help="its id, or its name")
    again.add_argument(
        "--command", default="", help="lines for the sh of its image instead of what it runs"
    )
    again.add_argument(
        "--env",
        action="append",
        default=[],
        type=assignment,
        metavar="NAME=VALUE",
        help="a variable that is added or replaced; repeatable",
    )
    again.add_argument(
        "--files", metavar="FOLDER", help="a suite's folder, whose files replace those of the step"
    )
    again.add_argument(
        "-w",
        "--watch",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="show its log until it is over; by default on a terminal",
    )
    again.add_argument("--timeout", type=seconds, help="stop watching after, such as 5m (exit 13)")


def assignment(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not sign or not name:
        raise ArgumentTypeError(f"{text!r}: expected NAME=VALUE, such as BREAK=no")
    return name, value


def repeat_step(options: Options) -> int:
    is_watched = sys.stdout.isatty() if options["watch"] is None else options["watch"]
    if options["timeout"] and not is_watched:
        raise InvalidInput("--timeout ends the watching: it needs --watch")
    request = RepeatRequest(
        step=options["step"],
        command=options["command"],
        env=dict(options["env"]),
        files=read_files(options["files"]) if options["files"] else None,
    )
    repeat = repeats.repeat_step(accounts.operator(), options["run"], request)
    if is_watched:
        return _watch(repeat, options)
    if options["output"] == "json":
        print_json(repeat)
    else:
        sys.stdout.write(f"{repeat['id']}\n")
        sys.stderr.write(f"{printable(repeat['stepId'])} {repeat['sentence']}\n")
    return ExitCode.OK


def read_files(folder: str) -> dict[str, bytes]:
    """Return the files of a folder by the rules for packages of suites; raise InvalidInput."""
    if not Path(folder).is_dir():
        raise InvalidInput(f"--files {folder}: there is no such folder")
    try:
        files = dict(read_folder(folder))
    except BrokenPackage as broken:
        raise InvalidInput(f"--files {folder}: {broken.path} {broken.reason}") from None
    except OSError as error:
        raise InvalidInput(f"--files {folder}: {error.strerror}") from None
    if not files:
        raise InvalidInput(f"--files {folder}: the folder has no files, hidden ones aside")
    return files


def _watch(repeat: RepeatDocument, options: Options) -> int:
    """Print the log until the repeat is over; stdout has nothing but JSON with `-o json`."""
    run_id, repeat_id = repeat["executionId"], repeat["id"]
    stop = threading.Event()
    timer = start_timer(options["timeout"], stop)
    try:
        ended = _follow(run_id, repeat_id, stop, to_stderr=options["output"] == "json")
    except KeyboardInterrupt:
        _say_it_goes_on(repeat_id)
        return ExitCode.STILL_RUNNING
    finally:
        timer.cancel()
    if options["output"] == "json":
        print_json(ended)
    else:
        sentence = f"{ended['stepId']} {ended['sentence']}"
        sys.stdout.write(f"{printable(sentence)}\nthe verdict of {run_id} stays as it was\n")
    if "finishedAt" not in ended:
        _say_it_goes_on(repeat_id)
        return ExitCode.TIMEOUT
    return exit_code(ended)


def _follow(
    run_id: str, repeat_id: str, stop: threading.Event, *, to_stderr: bool
) -> RepeatDocument:
    out = sys.stderr if to_stderr else sys.stdout
    reader = LogReader(repeat_topic(repeat_id))
    try:
        while True:
            row = find_repeat(run_id, repeat_id)  # before its last lines are read
            for lines in reader.batches():
                out.writelines(f"{line.timestamp} {printable(line.text)}\n" for line in lines)
            out.flush()
            if row.finished_at is not None or stop.is_set():
                return repeat_detail(row, run_id)
            reader.wait()
    finally:
        reader.close()


def _say_it_goes_on(repeat_id: str) -> None:
    sys.stderr.write(f"not watched any longer, {repeat_id} goes on; the page of the run shows it\n")


def exit_code(repeat: RepeatDocument) -> ExitCode:
    """Return the exit code for a watched repeat, as `run launch --watch` has it for a run."""
    if repeat["state"] == "failed" and repeat.get("reason") in _INFRASTRUCTURE:
        return ExitCode.RUN_ERROR
    return _ENDS.get(repeat["state"], ExitCode.RUN_FAILED)
