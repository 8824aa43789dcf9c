"""The standard streams of a command: closed or without the letters of a text, none ends it.

How a command ends that could not write its output is the same in both halves.
"""

from __future__ import annotations

import errno
import io
import os
import sys
from contextlib import suppress
from typing import Final, TextIO

from partita_client.exit_codes import ExitCode

_BROKEN_PIPE: Final = 141  # of a shell, for a program that SIGPIPE ended
_NO_ROOM: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
_MODES: Final = {"stdin": "r", "stdout": "w", "stderr": "w"}


def prepare_streams() -> None:
    """Put an empty file in the place of a closed stream (`>&-`); escape unknown letters.

    A stream of Python fails at a letter that its encoding does not have, as ASCII has no `✗`.
    """
    for name, mode in _MODES.items():
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115, PTH123 - to the end
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def write_line(stream: TextIO, text: str) -> None:
    """Write a line at once; a stream that refuses it is not written to any longer."""
    try:
        stream.write(f"{text}\n")
        stream.flush()
    except OSError:  # what is left in the buffer must not end the process with a code of its own
        _discard(stream)


def is_output_failure(error: OSError) -> bool:
    """Return whether an error means that the reader has gone, or that there is no more room."""
    return isinstance(error, BrokenPipeError) or error.errno in _NO_ROOM


def end_output(error: OSError) -> int:
    """Say what could not be read or written, and return the exit code.

    What stdout still holds is written, or thrown away where it cannot be.
    """
    try:
        sys.stdout.flush()
    except OSError:
        _discard(sys.stdout)
    if isinstance(error, BrokenPipeError):  # `… | head` has read enough
        return _BROKEN_PIPE
    place = error.filename or ("the output cannot be written" if is_output_failure(error) else "")
    why = error.strerror or str(error) or type(error).__name__
    write_line(sys.stderr, f"error: {place}: {why}" if place else f"error: {why}")
    return ExitCode.ERROR


def _discard(stream: TextIO) -> None:
    with suppress(OSError):  # a stream without a file, as in a test, has nothing left
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def has_all_letters() -> bool:
    """Return whether stdout can write any letter."""
    return "utf" in (getattr(sys.stdout, "encoding", None) or "utf").lower()
