"""The clock of a supervisor's loop while its process stands still."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time

import pytest

from worker.supervisor import event_loop

STANDSTILL_S = 3.5
PROGRAM = """
import asyncio, sys
from worker.supervisor import event_loop

async def main():
    loop = asyncio.get_running_loop()
    reading = loop.run_in_executor(None, sys.stdin.readline)
    print("ready", flush=True)
    async with asyncio.timeout(2.5):
        return await reading

print(event_loop.run(main()).strip(), flush=True)
"""


@pytest.mark.slow
def test_a_deadline_counts_only_the_time_in_which_the_process_could_act():
    """SIGSTOP for longer than the deadline; the answer that waited meanwhile is in time."""
    child = subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert child.stdin
    assert child.stdout
    assert child.stdout.readline() == "ready\n"
    os.kill(child.pid, signal.SIGSTOP)
    time.sleep(STANDSTILL_S)  # the standstill itself
    os.kill(child.pid, signal.SIGCONT)
    time.sleep(0.2)  # it goes on before there is an answer
    told, _ = child.communicate("in time\n", timeout=180)
    assert (told, child.returncode) == ("in time\n", 0)


def test_a_deadline_of_a_process_that_runs_ends_in_time():
    async def wait() -> None:
        async with asyncio.timeout(0.1):
            await asyncio.Event().wait()

    with pytest.raises(TimeoutError):
        event_loop.run(wait())
