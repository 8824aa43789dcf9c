"""`run again`: a step once more in the kept environment of its run."""

from __future__ import annotations

import argparse
import base64
import io
import sys
from argparse import ArgumentTypeError
from pathlib import Path
from typing import Any, Final

from partita_client.command.output import note, printable, say, show_document
from partita_client.command.parser import CommandSession, CommandVerb, add_run, seconds
from partita_client.errors import BadConfiguration, WaitTimeout
from partita_client.exit_codes import INFRASTRUCTURE_REASONS, ExitCode

_ENDS: Final = {"succeeded": ExitCode.OK, "canceled": ExitCode.RUN_CANCELED}
_MAX_BYTES: Final = 7 * 2**20  # of the archive: a request has at most 10 MiB, in base64


def _add_again(parser: Any) -> None:
    add_run(parser)
    parser.add_argument("step", metavar="STEP", help="its id, or its name")
    parser.add_argument(
        "--command", default="", help="lines for the sh of its image instead of what it runs"
    )
    parser.add_argument(
        "--env",
        action="append",
        default=[],
        type=assignment,
        metavar="NAME=VALUE",
        help="a variable that is added or replaced; repeatable",
    )
    parser.add_argument(
        "--files",
        type=Path,
        metavar="FOLDER",
        help="a suite's folder, whose files replace those of the step",
    )
    parser.add_argument(
        "-w",
        "--watch",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="show its log until it is over; by default on a terminal",
    )
    parser.add_argument("--timeout", type=seconds, help="stop watching after, such as 5m (exit 13)")


def assignment(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not sign or not name:
        raise ArgumentTypeError(f"{text!r}: expected NAME=VALUE, such as BREAK=no")
    return name, value


def repeat_step(session: CommandSession) -> int:
    options = session.options
    is_watched = sys.stdout.isatty() if options.watch is None else options.watch
    if options.timeout and not is_watched:
        raise BadConfiguration("--timeout ends the watching: it needs --watch")
    content = pack_folder(options.files) if options.files else ""
    repeat = session.client.repeat_step(
        options.run,
        options.step,
        command=options.command,
        env=dict(options.env) or None,
        contentBase64=content,
    )
    if is_watched:
        return _watch(session, repeat)
    if session.is_for_people:
        say(repeat["id"])
        note(printable(f"{repeat['stepId']} {repeat['sentence']}"))
    else:
        show_document(repeat, session.form)
    return ExitCode.OK


def pack_folder(folder: Path) -> str:
    """Return the files of a folder, hidden ones aside, as a tar.gz in base64."""
    import tarfile  # slow to import, and no other verb needs it

    if not folder.is_dir():
        raise BadConfiguration(f"--files {folder}: there is no such folder")
    packed = io.BytesIO()
    files = [path for path in sorted(folder.rglob("*")) if _is_packed(path, folder)]
    if not files:
        raise BadConfiguration(f"--files {folder}: the folder has no files, hidden ones aside")
    try:
        with tarfile.open(fileobj=packed, mode="w:gz") as archive:
            for path in files:
                archive.add(path, arcname=path.relative_to(folder).as_posix(), recursive=False)
                _check_size(folder, packed)
    except OSError as error:
        raise BadConfiguration(f"--files {folder}: {error.strerror}") from None
    _check_size(folder, packed)
    return base64.b64encode(packed.getvalue()).decode()


def _is_packed(path: Path, folder: Path) -> bool:
    parts = path.relative_to(folder).parts
    is_left_out = any(part.startswith(".") or part == "__pycache__" for part in parts)
    return not is_left_out and path.is_file() and not path.is_symlink()


def _check_size(folder: Path, packed: io.BytesIO) -> None:
    if packed.tell() > _MAX_BYTES:
        raise BadConfiguration(
            f"--files {folder}: packed it is larger than {_MAX_BYTES >> 20} MiB",
            advice="name the suite's own folder, without data",
        )


def _watch(session: CommandSession, repeat: Any) -> int:
    """Print the log until the repeat is over; stdout has nothing but the document for programs."""
    write = say if session.is_for_people else note
    run_id, repeat_id = repeat["executionId"], repeat["id"]
    code = None
    try:
        for line in session.client.repeat_log(run_id, repeat_id, timeout_s=session.options.timeout):
            write(f"{line['timestamp']} {printable(line['text'])}")
            sys.stdout.flush()
    except WaitTimeout:
        code = ExitCode.TIMEOUT
    except KeyboardInterrupt:
        code = ExitCode.STILL_RUNNING
    ended = session.client.repeat(run_id, repeat_id)
    if session.is_for_people:
        say(printable(f"{ended['stepId']} {ended['sentence']}"))
        say(f"the verdict of {run_id} stays as it was")
    else:
        show_document(ended, session.form)
    if code is not None and "finishedAt" not in ended:
        note(f"not watched any longer, {repeat_id} goes on; the page of the run shows it")
        return code
    return exit_code_of_repeat(ended)


def exit_code_of_repeat(repeat: Any) -> ExitCode:
    """Return the exit code for a watched repeat, as `run launch --watch` has it for a run."""
    if repeat["state"] == "failed" and repeat.get("reason") in INFRASTRUCTURE_REASONS:
        return ExitCode.RUN_ERROR
    return _ENDS.get(repeat["state"], ExitCode.RUN_FAILED)


VERBS: Final = (
    CommandVerb(
        name="again",
        text="run a step once more in the kept environment of its run",
        run=repeat_step,
        add_arguments=_add_again,
        formats=("text", "json", "yaml"),
    ),
)
