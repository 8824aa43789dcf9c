"""A process that opens shells and is killed.

`python -m tests.support.shell_opener RUNTIME STATE_DIR INSTALLATION SECONDS`: in every unit of the
supervisor of the tests it opens a shell `<step>-<SECONDS>`, starts a `sleep` of that many seconds
in its background, and prints `open` when all are there.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from tests.support import steps
from tests.support.terminals import Terminal
from worker.domain import ownership
from worker.domain.ownership import UnitOwner
from worker.domain.runtime import RuntimeOptions
from worker.domain.shells import ShellRequest
from worker.runtimes import runtimes


async def main(name: str, state_dir: str, installation_id: str, seconds: str) -> None:
    runtime = runtimes[name].open(
        RuntimeOptions(state_dir=Path(state_dir), installation_id=installation_id)
    )
    like = steps.owner()
    owner = UnitOwner(
        installation_id=installation_id,
        orchestrator_id=like.orchestrator_id,
        host_id=like.host_id,
    )
    for unit in await runtime.find(owner):
        request = ShellRequest(shell_id=f"{unit.labels[ownership.STEP]}-{seconds}")
        at = Terminal(await runtime.open_shell(unit, request))
        await at.type(f"trap '' HUP; sleep {seconds} & echo st''arted\n")
        await at.until("started")
    print("open", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
