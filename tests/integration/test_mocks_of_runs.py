"""Mocks of runs on real containers: each run has its own, and containers reach nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from tests.support.up import Up, runtime_of, write_suite
from worker.host import container_bridge

RUNS = 8
pytestmark = pytest.mark.docker

# Each run takes numbers from a counter and a record of its mocks, at once with the others.
SUITE = """
desk = mock.serve("desk")

visit = task.run(
    "visit", image = "busybox:1.36", file = "visit.sh", after = [desk], reset_mocks = [desk],
    expect_calls = [
        {"mock": desk, "operation": "enter", "count": 5},
        {"mock": desk, "operation": "enter", "body": {"who": env.get("WHO", "")}, "count": 5},
        {"mock": desk, "operation": "draw", "at_least": 3, "at_most": 3},
    ],
)
task.run(
    "again", image = "busybox:1.36", file = "again.sh", after = [visit], reset_mocks = [desk],
    expect_calls = [{"mock": desk, "operation": "enter", "example": "first", "count": 1}],
)
"""
VISIT = """
enter() {
  wget -qO- --header 'Content-Type: application/json' --post-data '{"who": "'"$WHO"'"}' \\
    $PARTITA_MOCK_DESK_URL/enter
}
for n in 1 2 3 4 5; do echo "entered $(enter)"; done
for n in 1 2 3; do echo "drew $(wget -qO- $PARTITA_MOCK_DESK_URL/draw)"; done
base=${PARTITA_MOCK_BASE_URL}
for path in / /healthz /api/v1/auth/sign-in /internal/mock-data/x/y/z; do
  wget -qO- $base$path >/dev/null 2>&1 && echo "reached $path" || echo "refused $path"
done
"""
AGAIN = """
wget -qO- --header 'Content-Type: application/json' --post-data '{}' $PARTITA_MOCK_DESK_URL/enter
"""
MOCKS = {
    "mock/desk/enter.metadata.yaml": """
spec:
  method: POST
  path: /enter
  state:
    lookupKeyTemplate: visitors
    defaults: {entered: "0"}
    transitions: [{increment: {entered: 1}}]
""",
    "mock/desk/enter.yaml": """
examples:
  first:
    when: [{from: state, param: entered, value: "0"}]
    response: {body: "after nobody"}
  later:
    response: {body: "after {{state.entered}}"}
""",
    "mock/desk/draw.metadata.yaml": """
spec: {method: GET, path: /draw, dispatcher: sequence, dispatcherRules: "a, b, c"}
""",
    "mock/desk/draw.yaml": """
examples:
  a: {response: {body: "a"}}
  b: {response: {body: "b"}}
  c: {response: {body: "c"}}
""",
}


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    folder = tmp_path_factory.mktemp("mocks")
    suites = folder / "suites"
    files = {"tasks/visit.sh": VISIT, "tasks/again.sh": AGAIN, **MOCKS}
    for number in range(RUNS):
        files[f"profiles/p{number}.yaml"] = f"env: {{WHO: guest-{number}}}\n"
    write_suite(suites, "desk", SUITE, files)
    with Up(folder / "up", SUITES_DIR=str(suites), UP_DEMO="0", **runtime_of("docker")) as made:
        yield made


@pytest.fixture(scope="module")
def runs(up: Up) -> dict[int, dict[str, Any]]:
    """Eight runs of the suite, launched at the same moment, by the number of their profile."""

    def launched(number: int) -> str:
        body = {"suiteId": "desk", "profile": f"p{number}.yaml"}
        with up.client() as client:
            answer = client.post("/executions", json=body)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["id"])

    up.client().close()  # signs in once
    with ThreadPoolExecutor(RUNS) as threads:
        ids = list(threads.map(launched, range(RUNS)))
    return {number: up.wait_for(run_id, within_s=240) for number, run_id in enumerate(ids)}


def said(up: Up, run: dict[str, Any], step: str) -> list[str]:
    lines = up.lines(run["id"], source=step)
    return [line["text"] for line in lines if line["kind"] == "output"]


def test_runs_of_one_suite_at_the_same_moment_have_their_own_mocks(up: Up, runs):
    """State, counters and journal of a run are of no other. Invariant 29."""
    for run in runs.values():
        assert run["status"] == "Healthy", (run["verdict"], said(up, run, "visit"))
        told = said(up, run, "visit")
        assert told[:8] == [
            "entered after nobody",
            *(f"entered after {before}" for before in range(1, 5)),
            *(f"drew {name}" for name in "abc"),
        ]
        (enter,) = [each for each in run["artifacts"] if each["stepId"] == "visit"]
        assert enter["testSummary"] == {**enter["testSummary"], "total": 3, "passed": 3}
    overlap = [
        run["bootedAt"] < other["finishedAt"] for run in runs.values() for other in runs.values()
    ]
    assert all(overlap), "all eight lived at one moment"


def test_a_step_begins_with_empty_mocks(up: Up, runs):
    for run in runs.values():
        assert said(up, run, "again") == ["after nobody"]
        assert "again-reset-mocks" in [event["id"] for event in run["events"]]


def test_containers_reach_the_mocks_and_nothing_else(up: Up, runs):
    for run in runs.values():
        refused = [line for line in said(up, run, "visit") if line.startswith("re")]
        assert refused == [
            "refused /",
            "refused /healthz",
            "refused /api/v1/auth/sign-in",
            "refused /internal/mock-data/x/y/z",
        ]
    bridge = container_bridge()
    body = up.credentials()
    answer = httpx.post(f"http://{bridge}:{up.port}/api/v1/auth/sign-in", json=body, timeout=30)
    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")


def test_the_spaces_of_runs_end_with_them(up: Up, runs):
    run_id = runs[0]["id"]
    address = f"{up.url}/mocks/rest/desk@{run_id}/desk/draw"

    answer = httpx.get(address, timeout=30)

    assert (answer.status_code, answer.json()["code"]) == (404, "space_not_active")
    assert httpx.get(f"{up.url}/mocks/rest/desk/desk/draw", timeout=30).text == "a"
