"""Suites whose tests all write `report.xml` in the directory in which they start."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.support.up import write_suite

TWO = """
load("@partita/runtime", "test")

for name in ("red", "green"):
    made = test.run(name, image = "busybox:1.36", file = name + ".sh")
    made.export("report.xml", format = "junit")
"""
RED = """
echo '<testsuite><testcase name="red"><failure message="no"/></testcase></testsuite>' > report.xml
sleep 1
"""
GREEN = """
sleep 0.5
echo '<testsuite><testcase name="green"/></testsuite>' > report.xml
"""
FORTY = """
load("@partita/runtime", "task", "test")

IMAGE = "busybox:1.36"
lines = ["echo loaded > loaded.txt"]
loads = [task.run("load-%d" % n, image = IMAGE, commands = lines) for n in range(15)]
def group(n, after):
    name = "test-%d" % n
    made = test.run(name, image = IMAGE, file = "group.sh", env = {"GROUP": n}, after = after)
    return made.export("report.xml", format = "junit", required = True)

others = [group(n, loads[n % 5]) for n in range(10) if n != 5]
group(5, others)  # it fails, and then nothing more starts
for n in range(15):
    task.run("publish-%d" % n, image = IMAGE, commands = ["cat tests/group.sh"], after = loads[0])
"""
GROUP = """
failure=
[ "$GROUP" != 5 ] || failure='<failure message="five"/>'
sleep 0.3
echo "<testsuite><testcase name='group $GROUP'>$failure</testcase></testsuite>" > report.xml
sleep 0.3
"""


def make_report_suites(folder: Path) -> list[Path]:
    """Write `two-reports` and `forty` (40 steps, 10 tests, of which test-5 fails)."""
    write_suite(folder, "two-reports", TWO, {"tests/red.sh": RED, "tests/green.sh": GREEN})
    write_suite(folder, "forty", FORTY, {"tests/group.sh": GROUP})
    return [folder / "two-reports", folder / "forty"]


def reported_cases(detail: dict[str, Any]) -> dict[str, tuple[int, int]]:
    """Return step → (tests, failures) of its report; a step with two reports is an error."""
    reports = [each for each in detail["artifacts"] if each["path"] == "report.xml"]
    found = {
        each["stepId"]: (each["testSummary"]["total"], each["testSummary"]["failures"])
        for each in reports
    }
    assert len(found) == len(reports), reports
    return found


def reasons(detail: dict[str, Any]) -> dict[str, str]:
    """Return step → reason of the steps that failed."""
    failed = [step for step in detail["steps"] if step["status"] == "failed"]
    return {step["id"]: step["reason"] for step in failed}
