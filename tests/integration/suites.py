"""Suites made for these tests, in a folder of theirs."""

from __future__ import annotations

from pathlib import Path

from tests.support.up import copy_hello, write_suite

SLOW = """
load("@partita/runtime", "env", "service", "task")

IMAGE = "busybox:1.36"
clock = service.run(image = IMAGE, file = "clock.sh", ready = {"log": "tick 1"})
steps = {"STEPS": env.get("STEPS", "20")}
task.run(name = "walk", image = IMAGE, file = "walk.sh", after = [clock], env = steps)
"""
CLOCK = """
i=0
while :; do i=$((i + 1)); echo "tick $i"; sleep 0.1; done
"""
WALK = """
i=0
while [ $i -lt $STEPS ]; do i=$((i + 1)); echo "$i/$STEPS walked"; sleep 0.1; done
"""
BROKEN = """
load("@partita/runtime", "task")

task.run(image = "busybox:1.36", commmand = ["true"])
"""
FAILING = """
load("@partita/runtime", "task")

task.run(name = "fails", image = "busybox:1.36", command = ["false"])
"""


def make_suites(folder: Path) -> Path:
    """`hello`, `slow` (profiles short.yaml and long.yaml), `failing`, `broken`."""
    copy_hello(folder)
    write_suite(
        folder,
        "slow",
        SLOW,
        {
            "services/clock.sh": CLOCK,
            "tasks/walk.sh": WALK,
            "profiles/short.yaml": "name: Short\ndefault: true\nenv: {STEPS: '20'}\n",
            "profiles/long.yaml": "name: Long\nenv: {STEPS: '3000'}\n",
        },
    )
    write_suite(folder, "failing", FAILING, {})
    write_suite(folder, "broken", BROKEN, {})
    return folder
