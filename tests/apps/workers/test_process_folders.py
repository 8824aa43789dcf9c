"""The runtime of child processes, while folders of other steps come and go."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path

import pytest

from tests.support import steps
from worker.domain.runtime import RuntimeOptions
from worker.runtimes.process.runtime import ProcessRuntime
from worker.runtimes.process.units import UnitFolder

ROUNDS = 300


@pytest.mark.slow
async def test_steps_that_are_removed_meanwhile_are_passed_over(tmp_path: Path):
    """A step of the same run that ends in this moment is no error of the one that begins."""
    runtime = ProcessRuntime(RuntimeOptions(state_dir=tmp_path, installation_id=steps.INSTALLATION))
    churn = threading.Thread(target=_come_and_go, args=(tmp_path / "process" / "runs",))

    churn.start()
    looks = 0
    while churn.is_alive():
        assert await runtime.find(steps.owner()) == []
        looks += 1
    await runtime.close()

    assert looks > 1


def _come_and_go(root: Path) -> None:
    for number in range(ROUNDS):
        folder = UnitFolder(root / "run-0123456789ab" / "units" / f"step-{number % 5}")
        folder.make({"partita.managed": "true"}, "workspace")
        shutil.rmtree(root / "run-0123456789ab")
