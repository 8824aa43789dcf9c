"""Any plan with any outcomes, driven to its end by supervisors that come and go."""

from __future__ import annotations

import random
from typing import Any

import pytest

from apps.executions.domain.agent_reports import Lease
from apps.executions.models import Execution
from apps.executions.services.cancellations import cancel
from apps.executions.services.sweep import sweep
from tests.apps.executions.runs import (
    Run,
    Worker,
    booted_run,
    let_leases_lapse,
    let_retries_be_due,
    node,
)

ENDED = {"Healthy", "Failed", "Canceled"}
TERMINAL = {"healthy", "failed", "skipped", "canceled"}


def any_nodes(chance: random.Random) -> list[dict[str, Any]]:
    nodes: list[dict[str, Any]] = []
    for number in range(chance.randint(1, 9)):
        before = [each["id"] for each in nodes]
        after = chance.sample(before, min(len(before), chance.choice([0, 0, 1, 1, 2])))
        triggers = chance.sample(before, 1) if before and chance.random() < 0.2 else []
        nodes.append(
            node(
                f"n{number}",
                kind=chance.choice(["task", "task", "test", "service"]),
                after=[need for need in after if need not in triggers],
                on_failure=triggers,
                retries=chance.choice([0, 0, 1]),
                idempotent=chance.random() < 0.5,
                continueOnFailure=chance.random() < 0.15,
            )
        )
    return nodes


def one_move(chance: random.Random, worker: Worker, run: Run) -> Worker:
    """Something that can happen while a run is under way."""
    let_retries_be_due()
    worker.claim(chance.randint(1, 4))
    held = list(worker.jobs)
    if chance.random() < 0.05:
        let_leases_lapse()
        sweep()
    if chance.random() < 0.05:
        kept = [job for job in worker.jobs.values() if chance.random() < 0.5]
        jobs, worker = worker.jobs, worker.restarted()
        worker.adopt(*kept)
        worker.jobs = jobs
    if chance.random() < 0.01:
        cancel_unless_over(run)
    for step in chance.sample(held, min(len(held), 2)):
        report(chance, worker, step)
    return worker


def cancel_unless_over(run: Run) -> None:
    if run.status not in ENDED:
        cancel(run.principal, run.id)


def report(chance: random.Random, worker: Worker, step: str) -> None:
    """Late and repeated reports are part of it: they are refused."""
    service = worker.jobs[step]["node"]["kind"] == "service"
    worker.report(step, "running")
    stop = worker.renew(step)[0]
    stop_requested = isinstance(stop, Lease) and bool(stop.cancel_reason)
    if stop_requested or chance.random() < 0.05:  # or gives up what it holds
        worker.end(step, "canceled")
    elif service and chance.random() < 0.8:
        worker.report(step, "healthy")
    elif chance.random() < 0.3:
        worker.fail(step)
    elif not service or chance.random() < 0.1:
        worker.end(step)


SEEDS = [*range(4), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(4, 25))]


@pytest.mark.parametrize("seed", SEEDS)
def test_every_run_ends_as_its_steps_say(seed):
    """Invariants 3, 4, 5, 13 together."""
    chance = random.Random(seed)
    run = booted_run(*any_nodes(chance))
    worker = Worker()
    for _ in range(300):
        if run.status in ENDED:
            break
        worker = one_move(chance, worker, run)

    assert run.status in ENDED, f"seed {seed}: {run.statuses}"
    assert set(run.statuses.values()) <= TERMINAL
    assert (run.status == "Failed") >= run.row.failing or run.status == "Canceled"
    ids = run.event_ids()
    assert len(ids) == len(set(ids))
    last = {event["source"]: event["status"] for event in run.events()}
    assert {source: last[source] for source in run.statuses} == run.statuses
    assert Execution.objects.get().bound_agent_id == ""
