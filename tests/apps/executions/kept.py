"""Ended runs whose environments are kept, for tests of what people do in them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from apps.executions import api
from apps.executions.domain.repeats import RepeatRequest
from apps.executions.models import Execution, StepRepeat
from apps.executions.services.admission import dispatch
from apps.executions.services.launch import store_run
from apps.executions.services.repeat_claims import RepeatClaim
from apps.executions.services.repeats import repeat_step
from kernel import clock
from kernel.agent_protocol import Completion, Job, LogChunk, LogLine
from tests.apps.executions.runs import Run, Worker, accepted, node

NODES = (
    node("db", kind="service"),
    node("seed", after=["db"], env={"BREAK": "yes", "SIZE": "3"}),
    node("check", after=["seed"], kind="test"),
    node("note", kind="log", message="hello"),
)


def keep(run: Run, *, agent_id: str = "runner-1") -> Run:
    """Keep the environment of an ended run for an hour."""
    Execution.objects.filter(pk=run.pk).update(
        keep_alive_ms=3_600_000,
        keep_alive_until=clock.now() + timedelta(hours=1),
        keep_ended_at=None,
        bound_agent_id=agent_id,
    )
    return run


def end_keeping(run: Run) -> None:
    Execution.objects.filter(pk=run.pk).update(keep_ended_at=clock.now(), bound_agent_id="")


def kept_run(worker: Worker, *nodes: dict[str, Any], **facts: Any) -> Run:
    """A run in which `seed` failed, and whose environment is kept."""
    ready = accepted(*(nodes or NODES), **facts)
    run = Run(store_run(ready)[0], ready.principal)
    dispatch()
    while claimed := worker.claim():
        for step in claimed:
            if step == "seed":
                worker.fail(step)
            elif worker.jobs[step]["node"]["kind"] == "service":
                worker.report(step, "healthy")
            else:
                worker.end(step)
    if "db" in worker.jobs:
        worker.end("db", "canceled")
    assert run.status == "Failed"
    return keep(run, agent_id=worker.agent_id)


def ask(run: Run, step: str = "seed", **facts: Any) -> StepRepeat:
    request = RepeatRequest(step=step, **facts)
    document = repeat_step(run.principal, run.id, request)
    return StepRepeat.objects.get(repeat_id=document["id"])


def take(worker: Worker, holder: str = "process-1") -> list[RepeatClaim]:
    return api.take_repeats(worker.agent_id, holder)


def chunk(*texts: str, seq: int = 0) -> LogChunk:
    lines = [LogLine(clock.now(), "info", "output", text) for text in texts]
    return LogChunk(job=Job(job_id="", attempt=0), seq=seq, position=seq + len(texts), lines=lines)


def completion(status: str = "succeeded", **facts: Any) -> Completion:
    if status == "succeeded":
        facts.setdefault("exit_code", 0)
    return Completion(job=Job(job_id="", attempt=0), status=status, **facts)
