"""Several at once: completions of one run, reports beside sweeps."""

from __future__ import annotations

from functools import partial

import pytest
from django.db import connection

from apps.executions import api
from apps.executions.services import cancellations
from tests.apps.executions.runs import Worker, booted_run, node
from tests.support.threads import at_once

pytestmark = [pytest.mark.store, pytest.mark.slow]  # many threads at once


@pytest.mark.parametrize("_round", range(5))
def test_the_common_dependent_of_two_completions_is_never_forgotten(worker: Worker, _round):
    """Invariant 13, invariant 5: a run that waits for ever."""
    run = booted_run(node("a"), node("b"), node("join", after=["a", "b"]))
    worker.claim()
    at_once([lambda: worker.end("a"), lambda: worker.end("b")])
    assert run.statuses == {"a": "healthy", "b": "healthy", "join": "queued"}


def test_many_completions_at_once_end_the_run_once(worker: Worker):
    """Invariant 4."""
    steps = [f"n{number}" for number in range(8)]
    run = booted_run(*[node(step) for step in steps])
    worker.claim()
    at_once([partial(worker.end, step) for step in steps])
    assert run.status == "Healthy"
    ids = run.event_ids()
    assert ids.count("execution-healthy") == 1
    assert ids[-1] == "execution-healthy"
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("_round", range(5))
@pytest.mark.parametrize("names", [["r1", "r2", "r3", "r4"], ["r1"] * 4], ids=["four", "one"])
def test_supervisors_that_claim_at_once_never_get_the_same_step(names: list[str], _round: int):
    """Invariant 6; also of one that asks by four calls at once."""
    for _ in range(6):
        booted_run(node("a"), node("b"))
    known = {name: Worker(name) for name in names}
    workers = [known[name] for name in names]
    claimed: list[str] = []

    def claim(worker: Worker) -> None:
        for _ in range(4):
            answer = api.record_reports(worker.supervisor, claims=2)
            claimed.extend(spec["jobId"] for spec in answer.claimed)

    at_once([partial(claim, worker) for worker in workers])
    assert len(claimed) == len(set(claimed)) == 12


def test_lines_of_many_steps_at_once_are_all_kept_in_order(worker: Worker):
    """Invariant 11."""
    steps = [f"n{number}" for number in range(6)]
    run = booted_run(*[node(step) for step in steps])
    worker.claim()

    def write(step: str) -> None:
        for seq in range(0, 40, 4):
            worker.log(step, *[f"{step} {seq + more}" for more in range(4)], seq=seq)
        worker.end(step, final_seq=40)

    at_once([partial(write, step) for step in steps])
    assert run.status == "Healthy"
    for step in steps:
        assert run.output(step) == [f"{step} {number}" for number in range(40)]


def test_a_cancel_beside_completions_leaves_one_final_status(worker: Worker):
    """Invariant 4."""
    run = booted_run(node("a"), node("b"), node("c", after=["a", "b"]))
    worker.claim()

    def cancel() -> None:
        cancellations.cancel(run.principal, run.id)

    at_once([cancel, lambda: worker.end("a"), lambda: worker.end("b")])
    assert run.status == "Canceled"
    assert run.statuses["c"] == "canceled"


def test_a_claim_that_does_not_look_around_takes_what_its_reports_set_free(worker: Worker):
    run = booted_run(node("a"), node("b", after=["a"]))
    worker.claim()
    booted_run(node("elsewhere"), principal=run.principal)  # several workspaces share a queue

    done = [worker.completion("a")]
    answer = api.record_reports(worker.supervisor, completions=done, claims=8, looks_around=False)

    assert [spec["node"]["id"] for spec in answer.claimed] == ["b"]


@pytest.mark.parametrize("count", [2, 12])
def test_a_level_of_any_width_takes_the_same_few_queries(
    worker: Worker, django_assert_num_queries, count
):
    """Steps start, print and end, and those after them are claimed, in one unit of work."""
    steps = [f"n{number}" for number in range(count)]
    nexts = [node(f"next-{step}", after=steps) for step in steps]
    booted_run(*[node(step) for step in steps], *nexts)
    worker.claim()

    with django_assert_num_queries(8 if connection.vendor == "postgresql" else 12):
        answer = api.record_reports(
            worker.supervisor,
            states=[worker.state(step) for step in steps],
            chunks=[worker.chunk(step, "hello") for step in steps],
            completions=[worker.completion(step, final_seq=1) for step in steps],
            claims=count,
            looks_around=False,
        )

    assert len(answer.claimed) == count


def test_mirror_lines_stand_in_the_order_of_their_events(worker: Worker):
    """Several steps that start, print and end in one unit of work, too."""
    run = booted_run(node("a"), node("b"))
    worker.claim()

    api.record_reports(
        worker.supervisor,
        states=[worker.state("a"), worker.state("b")],
        chunks=[worker.chunk("a", "hello"), worker.chunk("b", "hello")],
        completions=[worker.completion("a", final_seq=1), worker.completion("b", final_seq=1)],
    )

    mirrors = [(line["source"], line["text"]) for line in run.lines("")]
    assert mirrors == [(event["source"], event["text"]) for event in run.events()]
