"""Suites are read and evaluated once when the server starts, beside everything else."""

from __future__ import annotations

from typing import Final

from apps.suites.library import library
from apps.system.api import LifespanPart
from kernel.background import BackgroundThread

SERVER_PATIENCE_S: Final = 0.03


class SuiteEvaluation(LifespanPart):
    """Warms the library on its own threads, so that the first list already shows every topology.

    From then on no list of this process waits for a slow suite.
    """

    async def start(self) -> None:
        library.patience_s = SERVER_PATIENCE_S
        BackgroundThread("suites-at-start", library.shown).start()

    async def stop(self) -> None:
        library.close()
