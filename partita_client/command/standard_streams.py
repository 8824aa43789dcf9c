"""The standard streams of a command: closed or without the letters of a text, none ends it."""

from __future__ import annotations

import io
import os
import sys
from typing import Final

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


def discard_output() -> None:
    """Throw away what is still to be written to stdout, which cannot be written."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def has_all_letters() -> bool:
    """Return whether stdout can write any letter."""
    return "utf" in (getattr(sys.stdout, "encoding", None) or "utf").lower()
