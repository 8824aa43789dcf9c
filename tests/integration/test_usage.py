"""What steps use, from the kernel to the API; and that a profile turns it off.

(reference: control-plane 6.1)
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.processes import until
from tests.support.up import Up, runtime_of, write_suite

STAR = """
load("@partita/runtime", "service", "task")

IMAGE = "busybox:1.36"
idle = service.run(name = "idle", image = IMAGE, file = "idle.sh", ready = {"log": "open"})
task.run(name = "busy", image = IMAGE, file = "busy.sh", after = [idle])
"""
IDLE = """
echo open
while :; do sleep 0.2; done
"""
BUSY = """
echo begun
end=$(($(date +%s) + 5))
while [ $(date +%s) -lt $end ]; do i=0; while [ $i -lt 20000 ]; do i=$((i + 1)); done; done
"""
QUIET = "name: Quiet\nobservability: {metrics: false, logs: false}\n"
FILES = {
    "services/idle.sh": IDLE,
    "tasks/busy.sh": BUSY,
    "profiles/usual.yaml": "name: Usual\ndefault: true\n",
    "profiles/quiet.yaml": QUIET,
}


@pytest.fixture(params=["process", pytest.param("docker", marks=pytest.mark.docker)])
def up(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Up]:
    write_suite(tmp_path / "suites", "load", STAR, FILES)
    suites = str(tmp_path / "suites")
    more = runtime_of(request.param)
    with Up(tmp_path / "up", SUITES_DIR=suites, UP_DEMO="0", LEASE="3s", **more) as up:
        yield up


def usages(detail: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {step["id"]: step["usage"] for step in detail["steps"] if "usage" in step}


def test_running_steps_show_what_they_use_and_keep_it(up: Up):
    run_id = up.json("run", "launch", "load")["id"]

    def both() -> dict[str, dict[str, Any]] | None:
        known = usages(up.detail(run_id))
        return known if len(known) == 2 else None

    shown = until(both, within_s=60, what="both steps show what they use while the run goes on")
    kept = usages(up.wait_for(run_id, "Healthy"))

    assert shown["busy"]["cpuPercent"] > shown["idle"]["cpuPercent"]
    assert kept["busy"]["cpuPercent"] > shown["idle"]["cpuPercent"], "however little it got"
    for figures in kept.values():
        assert 10_000 < figures["memoryBytes"] <= figures["memoryPeakBytes"] < 2**30


def test_a_quiet_profile_takes_no_samples_and_keeps_no_output(up: Up):
    run_id = up.json("run", "launch", "load", "--profile", "quiet.yaml")["id"]

    detail = up.wait_for(run_id, "Healthy")

    assert usages(detail) == {}
    assert {line["kind"] for line in up.lines(run_id)} <= {"", "system"}
