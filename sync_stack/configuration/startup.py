"""The start of a process: the secrets that a first one made, and how it is refused.

(reference: sync-stack 7.3)
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from kernel.commands import ExitCode
from kernel.redaction import known_secrets

SECRET_KEY: Final = "secret-key"  # noqa: S105 - the name of a file
TASK_API_KEY: Final = "task-api-key"
WEBHOOK_SECRET: Final = "webhook-secret"  # noqa: S105 - the name of a file
_MAX_SECRET_BYTES: Final = 2**16


class StartRefused(Exception):
    """The process cannot start, for the reasons in `lines`."""

    def __init__(self, lines: Sequence[str], *, exit_code: int = ExitCode.CONFIGURATION) -> None:
        super().__init__("; ".join(lines))
        self.lines = tuple(lines)
        self.exit_code = exit_code


def unavailable(line: str) -> StartRefused:
    """Return the error for an address in use or a store that cannot be used."""
    return StartRefused([line], exit_code=ExitCode.ADDRESS_IN_USE)


@contextmanager
def refusing() -> Iterator[None]:
    """Turn a StartRefused into lines on stderr and the exit code."""
    try:
        yield
    except StartRefused as refusal:
        for line in refusal.lines:
            sys.stderr.write(f"{known_secrets.mask(' '.join(line.splitlines()))}\n")
        sys.exit(refusal.exit_code)


class StateFolderUnusable(Exception):
    """A file in TLS_AUTO_DIR cannot be used; the message names it and says what to do."""


def read_secret(folder: Path, name: str) -> str:
    """Return a secret; empty where there is none. Raises StateFolderUnusable."""
    path = folder / name
    try:
        with path.open("rb") as file:
            return file.read(_MAX_SECRET_BYTES).decode("ascii").strip()
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise StateFolderUnusable(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise StateFolderUnusable(f"{path}: holds no secret; remove it, and one is made") from None
