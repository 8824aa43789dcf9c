"""Tests that run at once and write one name: each report is reported at its own step."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.report_suites import make_report_suites, reasons, reported_cases
from tests.support.up import Up, runtime_of, write_suite

pytestmark = pytest.mark.slow
MISSING = """
load("@partita/runtime", "task", "test")

IMAGE = "busybox:1.36"
read = ["cat $PARTITA_WORKSPACE_DIR/x.txt"]
lines = ["cd $PARTITA_WORKSPACE_DIR", "echo '<testsuite/>' > report.xml"]
test.run("elsewhere", image = IMAGE, commands = lines).export("report.xml", format = "junit")
give = task.run("give", image = IMAGE, commands = ["echo hi > $PARTITA_WORKSPACE_DIR/x.txt"])
take = task.run("take", image = IMAGE, commands = read, after = give)
strict = test.run("strict", image = IMAGE, commands = ["true"], after = take)
strict.export("gone.txt", required = True)
"""


@pytest.fixture(
    scope="module",
    params=["process", pytest.param("docker", marks=pytest.mark.docker)],
)
def up(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    folder = tmp_path_factory.mktemp(f"reports-{request.param}")
    suites = folder / "suites"
    make_report_suites(suites)
    write_suite(suites, "missing", MISSING, {})
    more = runtime_of(request.param)
    with Up(folder / "up", SUITES_DIR=str(suites), UP_DEMO="0", **more) as up:
        yield up


def launch(up: Up, suite: str) -> str:
    with up.client() as client:
        answer = client.post("/executions", json={"suiteId": suite})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


def test_two_tests_at_once_report_each_their_own_file(up: Up) -> None:
    detail = up.wait_for(launch(up, "two-reports"))

    assert reported_cases(detail) == {"red": (1, 1), "green": (1, 0)}
    assert reasons(detail) == {"red": "test_failures"}


def test_of_ten_tests_in_forty_steps_the_one_that_fails_is_reported(up: Up) -> None:
    detail = up.wait_for(launch(up, "forty"), within_s=240)

    wanted = {f"test-{number}": (1, int(number == 5)) for number in range(10)}
    assert len(detail["steps"]) == 40
    assert reported_cases(detail) == wanted
    assert reasons(detail) == {"test-5": "test_failures"}


def test_a_missing_report_is_a_warning_and_fails_a_step_that_requires_it(up: Up) -> None:
    run_id = launch(up, "missing")
    detail = up.wait_for(run_id)

    steps = {step["id"]: step for step in detail["steps"]}
    (elsewhere,) = steps["elsewhere"]["missingArtifacts"]
    assert elsewhere["path"] == "report.xml"
    assert "export /partita/workspace/report.xml" in elsewhere["hint"]
    assert steps["elsewhere"]["status"] == "healthy"
    assert reasons(detail) == {"strict": "artifact_missing"}
    assert steps["take"]["status"] == "healthy"
    shown = up.partita("run", "show", run_id).stdout
    assert "left no file report.xml" in shown
    assert "left no file gone.txt" in shown
