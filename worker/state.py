"""What a worker keeps on its own disk between two processes."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class WorkerInUse(RuntimeError):
    """Another process works under this name with this folder: each would take the other's steps."""


class WorkerState:
    """`folder` belongs to one agent id."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._installation = folder / "installation"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Raises WorkerInUse. The lock ends with the process, whatever ends it."""
        with (self.folder / "worker.lock").open("a") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise WorkerInUse(
                    f"another worker uses {self.folder}; stop it, or set AGENT_ID or DATA_DIR"
                ) from None
            yield

    @property
    def installation_id(self) -> str:
        """Of the control plane worked for last; empty at the first start."""
        try:
            return self._installation.read_text(encoding="ascii").strip()
        except FileNotFoundError:
            return ""

    def remember(self, installation_id: str) -> None:
        scratch = self._installation.with_suffix(".new")
        scratch.write_text(installation_id, encoding="ascii")
        scratch.replace(self._installation)
