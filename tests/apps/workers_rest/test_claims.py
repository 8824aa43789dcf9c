"""The long poll: it wakes at once, holds nothing while it waits, and hands out each step once."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from functools import partial
from typing import Any

import pytest
from asgiref.testing import ApplicationCommunicator
from django.db import connection

from apps.executions import api as executions
from apps.operations.domain import lifecycle
from apps.streams import api as streams
from apps.workers.rest import claim_turns, claims
from apps.workers.services import remote_workers
from platform_site.asgi import application
from tests.apps.executions.runs import booted_run, let_retries_be_due, node
from tests.apps.workers_rest.conftest import InThread, RemoteWorker
from tests.support.api_clients import problem

pytestmark = pytest.mark.store


@pytest.mark.timed
def test_nothing_to_do_is_204_at_once(worker):
    began = time.monotonic()
    answer = worker.post("agent-control/claims/next", {"agentId": "edge-1"})

    assert (answer.status_code, answer.content) == (204, b"")
    assert time.monotonic() - began < 1


@pytest.mark.timed
def test_a_waiting_worker_has_the_step_within_a_second_of_the_launch(worker):
    waiting = InThread(lambda: (worker.claim(wait_s=20), time.monotonic()))
    waiting_since(0.3)
    launched = time.monotonic()
    booted_run(node("a"))

    spec, at = waiting.result()

    assert spec["node"]["id"] == "a"
    assert at - launched < 1


@pytest.mark.timed
def test_without_a_nudge_it_looks_each_second(worker, monkeypatch):
    lose_nudges(monkeypatch)
    waiting = InThread(lambda: (worker.claim(wait_s=20), time.monotonic()))
    waiting_since(0.3)
    booted_run(node("a"))
    launched = time.monotonic()

    spec, at = waiting.result()

    assert spec is not None
    assert at - launched < 1.5


@pytest.mark.slow
def test_a_retry_is_handed_out_when_it_is_due(worker):
    booted_run(node("a", retries=1))
    worker.claim()
    worker.complete("a", "failed", reason="exit_nonzero", exitCode=1)
    waiting = InThread(lambda: worker.claim(wait_s=20))
    waiting_since(0.2)
    let_retries_be_due()

    assert waiting.result()["attempt"] == 2


def test_a_worker_that_asks_hears_of_the_steps_that_may_come_next(worker):
    booted_run(node("a"), node("b", after=["a"]), node("c", after=["b"]))
    body = {"agentId": worker.agent_id, "startAhead": 1}

    answer = worker.post("agent-control/claims/next", body)

    assert [each["node"]["id"] for each in answer.json()["ahead"]] == ["b"]
    assert problem(worker.post("agent-control/claims/next", body | {"startAhead": 33}))[0] == 400


@pytest.mark.timed
def test_it_ends_when_the_time_is_over(worker):
    began = time.monotonic()

    assert worker.claim(wait_s=1) is None
    assert 1 <= time.monotonic() - began < 2


@pytest.mark.timed
def test_it_ends_early_while_the_server_drains(worker, monkeypatch):
    draining = threading.Event()
    monkeypatch.setattr(lifecycle, "_draining", draining)
    waiting = InThread(lambda: worker.claim(wait_s=20))
    waiting_since(0.3)
    began = time.monotonic()
    draining.set()

    assert waiting.result() is None
    assert time.monotonic() - began < 2


def test_the_wait_of_an_agent_that_registers_anew_ends(worker):
    """Invariant 8: nothing is handed to a credential that no longer counts."""
    old = RemoteWorker(worker.token)
    body = {"agentId": "edge-1", "waitSeconds": 20}
    waiting = InThread(lambda: old.post("agent-control/claims/next", body))
    waiting_since(0.3)
    worker.register()
    booted_run(node("a"))

    assert problem(waiting.result()) == (401, "agent_credential_invalid")
    assert worker.claim()["node"]["id"] == "a"


@pytest.mark.timed
def test_each_of_many_waiting_workers_gets_other_steps(worker, other):
    """Invariant 6: a step handed out twice."""
    polls = [InThread(lambda: worker.claim(wait_s=20)) for _ in range(4)]
    polls += [InThread(lambda: other.claim(wait_s=20)) for _ in range(4)]
    waiting_since(0.5)
    for _ in range(8):
        booted_run(node("only"))

    specs = [poll.result() for poll in polls]

    assert len({spec["jobId"] for spec in specs}) == 8
    assert {spec["attempt"] for spec in specs} == {1}


@pytest.mark.slow
def test_what_arrives_at_once_shares_transactions_and_each_gets_its_own_answer(worker):
    run = booted_run(*(node(f"step-{number}") for number in range(12)))
    specs = [poll.result() for poll in [InThread(worker.claim) for _ in range(12)]]
    assert len({spec["jobId"] for spec in specs}) == 12

    def work(step: str) -> list[int]:
        answers = [
            worker.report(step, "state", state="running"),
            worker.log(step, f"I am {step}"),
            worker.log(step, "a hole", seq=5),
            worker.complete(step, exitCode=0, finalSeq=1),
        ]
        return [answer.status_code for answer in answers]

    ended = [InThread(partial(work, step)) for step in worker.jobs]

    assert [one.result() for one in ended] == [[200, 200, 409, 200]] * 12
    assert run.status == "Healthy"
    assert run.output("step-7") == ["I am step-7"]


@pytest.mark.timed
async def test_many_polls_wait_on_no_thread(worker):
    """While they wait, their threads go on with other requests."""
    polls = [Poll(worker, wait_s=20) for _ in range(30)]
    for poll in polls:
        await poll.start()
    await asyncio.sleep(1.0)

    began = time.monotonic()
    quick = Poll(worker, wait_s=0)
    await quick.start()
    assert (await quick.answer())["status"] == 204
    assert time.monotonic() - began < 1
    assert len(named("claims")) <= 4
    for poll in polls:
        await poll.leave()


async def test_a_step_that_was_claimed_for_a_client_that_has_gone_is_given_back(
    worker, monkeypatch
):
    entered, go_on = threading.Event(), threading.Event()
    claim = remote_workers.WaitingClaim.claim

    def slow_claim(waiting: remote_workers.WaitingClaim, *, waits: bool) -> object:
        entered.set()
        go_on.wait(30)
        return claim(waiting, waits=waits)

    monkeypatch.setattr(remote_workers.WaitingClaim, "claim", slow_claim)
    run = await on_thread(lambda: booted_run(node("a", kind="test")))
    poll = Poll(worker, wait_s=20)
    await poll.start()
    await asyncio.to_thread(entered.wait, 10)
    await poll.leave()
    go_on.set()

    monkeypatch.setattr(remote_workers.WaitingClaim, "claim", claim)
    step = await on_thread(lambda: until(lambda: run.step("a"), lambda row: row.attempt == 2))
    assert (step.status, step.job_state, step.requeues) == ("queued", "pending", 0)


@pytest.mark.timed
def test_a_waiting_claim_comes_with_the_completion_before_it(worker, monkeypatch):
    """Decision 0063: it needs neither a nudge nor a look of its own."""
    lose_nudges(monkeypatch)
    monkeypatch.setattr(claims, "POLL_INTERVAL_S", 30.0)
    booted_run(node("a"), node("b", after=["a"]))
    worker.claim()
    waiting = InThread(lambda: worker.claim(wait_s=20))
    waiting_since(0.5)

    worker.complete("a", exitCode=0)

    assert waiting.result()["node"]["id"] == "b"


async def test_a_step_that_came_with_a_completion_for_a_client_that_has_gone_is_given_back(
    worker, monkeypatch
):
    run = await on_thread(lambda: booted_run(node("a"), node("b", after=["a"], kind="test")))
    await on_thread(worker.claim)
    poll = Poll(worker, wait_s=20)
    await poll.start()
    await asyncio.to_thread(until, waiting_claims, len)
    monkeypatch.setattr(remote_workers.WaitingClaim, "give", lose_wake)

    await on_thread(lambda: worker.complete("a", exitCode=0))
    await poll.leave()

    step = await on_thread(lambda: until(lambda: run.step("b"), lambda row: row.attempt == 2))
    assert (step.status, step.job_state, step.requeues) == ("queued", "pending", 0)


def lose_nudges(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (claims, claim_turns):
        monkeypatch.setattr(module, "listen", lambda name, callback: lambda: None)
    monkeypatch.setattr(claims, "claim_turns", claim_turns.ClaimTurns())


def waiting_claims() -> list[remote_workers.WaitingClaim]:
    batchers = list(remote_workers._batchers.values())
    return [claim for batcher in batchers for claim in batcher._claims]


def lose_wake(claim: remote_workers.WaitingClaim, spec: Any) -> None:
    """The client leaves before its request goes on."""
    claim.given = spec


def test_a_step_that_waits_nudges_the_supervisor_of_its_run_alone(worker):
    """Others have nothing to look for."""
    heard: list[str] = []
    nudges = [executions.work_nudge(each) for each in ("", "edge-1", "edge-2")]
    names = [executions.WORK_NUDGE, *nudges]
    unsubscribe = [streams.listen(name, partial(heard.append, name)) for name in names]

    booted_run(node("a"), node("b", after=["a"]))
    of_a_new_run = set(heard)
    worker.claim()
    heard.clear()
    worker.complete("a", exitCode=0)

    for each in unsubscribe:
        each()
    assert of_a_new_run == {executions.work_nudge("")}
    assert heard == [executions.work_nudge("edge-1")]


class Poll:
    """A claim over ASGI whose client may leave."""

    def __init__(self, worker: RemoteWorker, wait_s: int) -> None:
        self._body = json.dumps({"agentId": worker.agent_id, "waitSeconds": wait_s}).encode()
        headers = {"authorization": worker.bearer["Authorization"], "host": "localhost"}
        headers |= {"content-type": "application/json", "content-length": str(len(self._body))}
        self._call = ApplicationCommunicator(
            application,
            {
                "type": "http",
                "http_version": "1.1",
                "method": "POST",
                "path": "/api/v1/agent-control/claims/next",
                "query_string": b"",
                "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
                "client": ("127.0.0.1", 1),
            },
        )

    async def start(self) -> None:
        await self._call.send_input({"type": "http.request", "body": self._body})

    async def answer(self) -> Any:
        return await self._call.receive_output(10)

    async def leave(self) -> None:
        await self._call.send_input({"type": "http.disconnect"})
        await self._call.wait(30)


async def on_thread(work):
    def work_and_let_go():
        try:
            return work()
        finally:
            connection.close()

    return await asyncio.to_thread(work_and_let_go)


def named(prefix: str) -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith(prefix)]


def waiting_since(seconds: float) -> None:
    """Lets a request on another thread get to where it waits."""
    time.sleep(seconds)


def until(look, holds, within_s: float = 10):
    deadline = time.monotonic() + within_s
    while not holds(found := look()):
        assert time.monotonic() < deadline, found
        time.sleep(0.05)
    return found
