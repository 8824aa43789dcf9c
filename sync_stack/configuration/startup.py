"""Refused starts: one line for each error on stderr, and an exit code for the kind."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from kernel.redaction import known_secrets

EXIT_CONFIGURATION: Final = 78  # sysexits: EX_CONFIG
EXIT_UNAVAILABLE: Final = 69  # EX_UNAVAILABLE: an address in use, a store that cannot be used


class StartRefused(Exception):
    """The process cannot start, for the reasons in `lines`."""

    def __init__(self, lines: Sequence[str], *, exit_code: int = EXIT_CONFIGURATION) -> None:
        super().__init__("; ".join(lines))
        self.lines = tuple(lines)
        self.exit_code = exit_code


def unavailable(line: str) -> StartRefused:
    """Return the error for an address in use or a store that cannot be used."""
    return StartRefused([line], exit_code=EXIT_UNAVAILABLE)


@contextmanager
def refusing() -> Iterator[None]:
    """Turn a StartRefused into lines on stderr and the exit code."""
    try:
        yield
    except StartRefused as refusal:
        for line in refusal.lines:
            sys.stderr.write(f"{known_secrets.mask(' '.join(line.splitlines()))}\n")
        sys.exit(refusal.exit_code)
