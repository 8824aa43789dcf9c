"""The standalone worker as a real process, against a real web process and its store."""

from __future__ import annotations

import base64
import json
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from kernel.ids import new_execution_id, new_job_id
from tests.support.cluster import SHARED_SECRET, Cluster
from tests.support.parts import need
from tests.support.processes import Process, until
from tests.support.report_suites import make_report_suites, reasons, reported_cases
from tests.support.steps import content as packed
from tests.support.typed import Typed
from worker.credentials import derived_token

NO_STORE = "postgresql://nobody@127.0.0.1:9/none"  # where nothing listens
NUMBERED = re.compile(r"^(\d+)/(\d+) ")
COUNTING = """
load("@partita/runtime", "env", "service", "task")

clock = service.run(image = "busybox:1.36", file = "clock.sh", ready = {"log": "tick 1"})
count = task.run(
    image = "busybox:1.36", file = "count.sh", after = [clock], idempotent = True,
    env = {"STEPS": env.get("STEPS", "60")},
)
"""
PROFILE = 'name: "{steps} lines"\nenv:\n  STEPS: "{steps}"\n'
CLOCK = "i=0\nwhile :; do i=$((i + 1)); echo tick $i; sleep 1; done\n"
COUNT = 'i=0\nwhile [ $i -lt $STEPS ]; do i=$((i + 1)); echo "$i/$STEPS counted"; sleep 0.1; done\n'
pytestmark = [pytest.mark.postgres, pytest.mark.redis]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("worker")
    suite = folder / "counting"
    (suite / "services").mkdir(parents=True)
    (suite / "tasks").mkdir()
    (suite / "profiles").mkdir()
    (suite / "suite.star").write_text(COUNTING)
    for steps in (10, 30, 60, 600):
        (suite / "profiles" / f"{steps}.yaml").write_text(PROFILE.format(steps=steps))
    (suite / "services" / "clock.sh").write_text(CLOCK)
    (suite / "tasks" / "count.sh").write_text(COUNT)
    postgres = need("TEST_POSTGRES_DSN", "PostgreSQL")
    with Cluster(
        folder / "cluster",
        parts=("web", "celery"),
        postgres=postgres,
        suites=[suite, *make_report_suites(folder)],
    ) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def worker(cluster: Cluster) -> Iterator[Process]:
    """One of processes instead of containers, that has no store."""
    worker = cluster.add("edge-1", kind="worker", LOCAL_RUNTIME="process", POSTGRES_DSN=NO_STORE)
    yield worker
    worker.end()


@pytest.fixture
def edge(cluster: Cluster, worker: Process) -> Process:
    """The worker, online and without work, whatever other tests did to it."""
    if not worker.running:
        worker.start()
    until(
        lambda: answers(worker), within_s=30, what=lambda: f"{worker.name} listens: {worker.tail()}"
    )
    wait_online(cluster, worker.name)  # after a kill -9 it counts as online for a while
    until(lambda: not what_runs(cluster, worker), within_s=30, what="what ran is cleaned up")
    return worker


@pytest.fixture
def nobody(cluster: Cluster, worker: Process) -> None:
    """No worker takes steps but those of the test."""
    worker.stop()
    assert cluster.client.delete(f"/agents/{worker.name}").status_code == 200


def answers(worker: Process) -> bool:
    try:
        return ask(worker, "/readyz").status_code == 200
    except httpx.ConnectError:
        return False


def wait_online(cluster: Cluster, name: str) -> None:
    def online() -> bool:
        agents = cluster.get("/agents", status="online").json()["agents"]
        return name in [agent["agentId"] for agent in agents]

    until(online, within_s=30, what=lambda: f"{name}: {cluster.processes[name].tail()}")


def test_hello_runs_on_a_worker(cluster: Cluster, edge: Process):
    run_id = cluster.launch("hello", backend="edge")

    detail = cluster.wait_over(run_id)

    assert detail["status"] == "Healthy", cluster.account_of(run_id)
    assert {step.get("agentId") for step in detail["steps"]} == {edge.name}
    assert detail["artifacts"][0]["format"] == "junit"


@pytest.mark.parametrize("suite", ["two-reports", "forty"])
def test_each_report_belongs_to_its_step(cluster: Cluster, edge: Process, suite: str):
    detail = cluster.wait_over(cluster.launch(suite, backend="edge"), within_s=240)

    failing = {"two-reports": "red", "forty": "test-5"}[suite]
    found = reported_cases(detail)
    assert found == {step_id: (1, int(step_id == failing)) for step_id in found}
    assert len(found) == {"two-reports": 2, "forty": 10}[suite], cluster.account_of(detail["id"])
    assert reasons(detail) == {failing: "test_failures"}
    assert {each.get("agentId") for each in detail["steps"]} == {edge.name}


def launched_until_counting(cluster: Cluster, edge: Process, steps: int = 60) -> str:
    """A run of `counting` whose task has printed its third line."""
    run_id = cluster.launch("counting", backend="edge", profile=f"{steps}.yaml")
    until(lambda: "3/" in printed(cluster, run_id), within_s=40, what=edge.tail, each_s=0.3)
    return run_id


def printed(cluster: Cluster, run_id: str) -> str:
    return "\n".join(
        record["line"]["text"]
        for record in cluster.lines(run_id)
        if record["line"]["kind"] == "output"
    )


def counted(cluster: Cluster, run_id: str) -> list[int]:
    """The numbers that the task printed, in the order in which they are stored."""
    lines = [record["line"] for record in cluster.lines(run_id)]
    return [
        int(match[1])
        for line in lines
        if line["source"] == "count" and (match := NUMBERED.match(line["text"]))
    ]


def step(detail: dict[str, Any], name: str) -> dict[str, Any]:
    return next(each for each in detail["steps"] if each["id"] == name)


def what_runs(cluster: Cluster, worker: Process) -> list[Path]:
    """The folders of the worker's steps."""
    data = cluster.folder / f"data-{worker.name}"
    return list(data.glob("workers/agents/*/process/runs/*/units/*"))


@pytest.mark.timed
def test_a_cancel_is_seen_within_3_s_and_nothing_is_left(cluster: Cluster, edge: Process):
    run_id = launched_until_counting(cluster, edge, steps=600)

    begun = time.monotonic()
    assert cluster.client.post(f"/executions/{run_id}/cancel", json={}).status_code == 202
    detail = cluster.wait_over(run_id)

    assert detail["status"] == "Canceled"
    assert time.monotonic() - begun < 8  # 3 s, and the shell's end
    assert step(detail, "count")["status"] == "canceled"
    until(lambda: not what_runs(cluster, edge), within_s=30, what="the teardown")


@pytest.mark.timed
def test_a_teardown_is_seen_soon(cluster: Cluster, edge: Process):
    run_id = launched_until_counting(cluster, edge, steps=10)

    detail = cluster.wait_over(run_id)

    assert detail["status"] == "Healthy"
    ended = step(detail, "count")["finishedAt"]
    assert seconds(detail["finishedAt"]) - seconds(ended) < 8


def seconds(time_of_day: str) -> float:
    """Of an RFC 3339 time, since its midnight."""
    hours, minutes, rest = time_of_day[11:-1].split(":")
    return int(hours) * 3600 + int(minutes) * 60 + float(rest)


def test_after_kill_9_a_worker_goes_on_with_its_steps(cluster: Cluster, edge: Process):
    """Invariants 6, 11, 39: same attempt, no line lost or doubled."""
    run_id = launched_until_counting(cluster, edge)

    edge.crash(away_s=1)
    detail = cluster.wait_over(run_id)

    assert detail["status"] == "Healthy", cluster.account_of(run_id)
    assert (step(detail, "count")["attempt"], step(detail, "clock")["attempt"]) == (1, 1)
    assert counted(cluster, run_id) == list(range(1, 61))
    assert "count-adopted" in [event["id"] for event in detail["events"]]


def test_a_worker_outlives_a_control_plane_that_is_away(cluster: Cluster, edge: Process):
    run_id = launched_until_counting(cluster, edge)

    cluster.processes["web"].crash(away_s=5)
    cluster.wait_ready()
    detail = cluster.wait_over(run_id)

    assert detail["status"] == "Healthy", cluster.account_of(run_id)
    assert step(detail, "count")["attempt"] == 1
    assert counted(cluster, run_id) == list(range(1, 61))


def test_a_worker_that_was_removed_registers_again(cluster: Cluster, edge: Process):
    """Its token is dead: 401, then a new one."""
    assert cluster.client.delete(f"/agents/{edge.name}").status_code == 200

    wait_online(cluster, edge.name)
    detail = cluster.wait_over(cluster.launch("hello", backend="edge"))

    assert detail["status"] == "Healthy"


def test_sigterm_lets_jobs_end(cluster: Cluster, edge: Process):
    """It claims nothing more; the task ends by itself, the service is canceled."""
    usual = edge.environment
    edge.environment = {**usual, "AGENT_DRAIN_TIMEOUT": "6s"}
    edge.stop()
    edge.start()
    edge.environment = usual  # of its next start
    run_id = launched_until_counting(cluster, edge, steps=30)

    edge.send(signal.SIGTERM)
    assert ask(edge, "/api/v1/agent/info").json()["status"] == "draining"
    until(lambda: not edge.running, within_s=40, what=edge.tail)

    assert edge.stop() == 0
    detail = cluster.detail(run_id)
    assert step(detail, "count")["status"] == "healthy", cluster.account_of(run_id)
    assert counted(cluster, run_id) == list(range(1, 31))
    cluster.client.post(f"/executions/{run_id}/cancel", json={})


def test_a_second_sigterm_leaves_the_jobs_to_the_next_process(cluster: Cluster, edge: Process):
    run_id = launched_until_counting(cluster, edge)

    before = edge.text()
    edge.send(signal.SIGTERM)
    until(lambda: "draining" in edge.text()[len(before) :], within_s=30, what=edge.tail)
    assert edge.stop() == 0
    edge.start()
    detail = cluster.wait_over(run_id)

    assert detail["status"] == "Healthy", cluster.account_of(run_id)
    assert counted(cluster, run_id) == list(range(1, 61))


def test_a_worker_with_a_wrong_secret_gets_no_work_and_says_why(cluster: Cluster):
    """Invariants 8 and 19."""
    wrong = "not-the-secret-of-this-control-plane"
    worker = cluster.add(
        "stranger", kind="worker", LOCAL_RUNTIME="process", AGENT_SHARED_SECRET=wrong
    )
    try:
        until(lambda: "refuses this AGENT_SHARED_SECRET" in worker.text(), within_s=30)
        assert wrong not in worker.text()
        names = [each["agentId"] for each in cluster.get("/agents").json()["agents"]]
        assert "stranger" not in names
        assert ask(worker, "/healthz", token="").status_code == 200
        assert worker.stop() == 0
    finally:
        worker.end()


def test_worker_status_shows_the_worker(cluster: Cluster, edge: Process, tmp_path: Path):
    token = cluster.client.headers["authorization"].removeprefix("Bearer ")
    typed = Typed(tmp_path, PARTITA_URL=cluster.url, PARTITA_TOKEN=token)

    agents = {agent["agentId"]: agent for agent in typed.json("worker", "status")["agents"]}

    assert agents[edge.name]["backends"] == ["edge"]
    assert agents[edge.name]["kind"] == "worker"
    assert agents[edge.name]["status"] == "online"


def test_a_callers_own_job_is_told_as_it_goes(cluster: Cluster, edge: Process):
    order = direct_order("sh", "-c", "echo one; echo $WHO; echo x > $PARTITA_ARTIFACTS_DIR/x.txt")

    with stream(edge, order) as answer:
        records = [json.loads(line) for line in answer.iter_lines()]

    assert [record["state"] for record in records if record["type"] == "state"] == ["running"]
    lines = [record for record in records if record["type"] == "log"]
    assert [line["line"]["text"] for line in lines] == ["one", "***"]
    assert [line["seq"] for line in lines] == [0, 1]
    assert [record["path"] for record in records if record["type"] == "artifact"]
    assert records[-1] == {
        "type": "done", "jobId": order["jobId"], "attempt": 1, "status": "succeeded", "exitCode": 0
    }  # fmt: skip
    again = ask(edge, "/api/v1/agent/run", json=order)
    assert (again.status_code, again.json()["code"]) == (409, "stale_attempt")
    cleaned = ask(edge, f"/api/v1/agent/jobs/{order['jobId']}/cleanup", json={}).json()
    assert cleaned["status"] == "cleaned"
    assert not what_runs(cluster, edge)


def test_a_caller_that_disconnects_cancels_its_job(cluster: Cluster, edge: Process):
    order = direct_order("sleep", "300")

    with stream(edge, order) as answer:
        lines = answer.iter_lines()  # who lets go of it hangs up
        assert json.loads(next(lines))["state"] == "running"
        again = ask(edge, "/api/v1/agent/run", json=order)
        assert (again.status_code, again.json()["code"]) == (409, "job_running")
        assert ask(edge, "/api/v1/agent/info").json()["runningJobs"] == 1

    del lines
    until(
        lambda: ask(edge, "/api/v1/agent/info").json()["runningJobs"] == 0,
        within_s=30, what="the cancel",
    )  # fmt: skip


def test_a_caller_may_cancel_its_job(edge: Process):
    order = direct_order("sleep", "300")

    with stream(edge, order) as answer:
        lines = answer.iter_lines()
        next(lines)
        canceled = ask(
            edge, f"/api/v1/agent/jobs/{order['jobId']}/cancel", json={},
            token=derived_token(SHARED_SECRET, edge.name),
        )  # fmt: skip
        assert canceled.json() == {"status": "canceled"}
        assert json.loads(list(lines)[-1])["status"] == "canceled"


def direct_order(*command: str) -> dict[str, Any]:
    return {
        "jobId": new_job_id(),
        "attempt": 1,
        "executionId": new_execution_id(),
        "suiteId": "direct",
        "leaseMs": 30000,
        "timeoutMs": 60000,
        "env": {"WHO": "a-secret-name"},
        "secretKeys": ["WHO"],
        "artifactExports": [{"path": "*.txt"}],
        "node": {"id": "call", "name": "Call", "kind": "task", "command": list(command)},
        "contentBase64": base64.b64encode(packed({"tasks/x.sh": "true\n"})).decode(),
    }


def stream(worker: Process, order: dict[str, Any]) -> Any:
    url = f"http://127.0.0.1:{worker.environment['AGENT_PORT']}/api/v1/agent/run"
    bearer = {"Authorization": f"Bearer {SHARED_SECRET}"}
    return httpx.stream("POST", url, json=order, headers=bearer, timeout=30)


def ask(worker: Process, path: str, *, token: str = SHARED_SECRET, **body: Any) -> httpx.Response:
    url = f"http://127.0.0.1:{worker.environment['AGENT_PORT']}{path}"
    bearer = {"Authorization": f"Bearer {token}"} if token else {}
    if "json" in body:
        return httpx.post(url, json=body["json"], headers=bearer, timeout=30)
    return httpx.get(url, headers=bearer, timeout=30)


@pytest.mark.docker
def test_shop_runs_on_a_worker_with_docker(cluster: Cluster, nobody: None):
    need("TEST_DOCKER_HOST", "a Docker engine")
    worker = cluster.add("docks", kind="worker", LOCAL_RUNTIME="docker", POSTGRES_DSN=NO_STORE)
    try:
        wait_online(cluster, "docks")
        run_id = cluster.launch("shop", backend="edge")
        detail = cluster.wait_over(run_id)
        assert detail["status"] == "Healthy", cluster.account_of(run_id)
        assert step(detail, "warm-cache")["attempt"] == 2
        until(lambda: not left_in_docker(run_id), within_s=30, what="the teardown")
    finally:
        worker.end()


def left_in_docker(run_id: str) -> list[str]:
    words = {
        "ps": ["ps", "-aq"],
        "network": ["network", "ls", "-q"],
        "volume": ["volume", "ls", "-q"],
    }
    found = []
    for command in words.values():
        listed = subprocess.run(
            ["docker", *command, "--filter", f"label=partita.run_id={run_id}"],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        found += listed.stdout.split()
    return found
