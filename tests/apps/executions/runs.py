"""Runs without suites and containers: topologies by hand, and a supervisor that tests drive."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from apps.accounts.api import Principal
from apps.agents.api import Registration, register
from apps.agents.models import Agent
from apps.executions import api, conf
from apps.executions.domain.events import events_topic, logs_topic
from apps.executions.domain.states import JobState, StepStatus, status_code_of
from apps.executions.models import Execution, Step
from apps.executions.services.admission import dispatch
from apps.executions.services.launch import Accepted, store_run
from apps.executions.services.storage import packed_suite
from apps.platform_settings.api import backends
from apps.profiles.api import LaunchProfile, SecretRef
from apps.streams.api import read
from apps.suites.api import ResolvedSuite
from apps.suites.domain.flat_topology import ImportedSuite
from kernel import clock
from kernel.agent_protocol import Completion, LogChunk, LogLine, StateReport, job_of
from tests.support.people import somebody


def node(id_: str, **facts: Any) -> dict[str, Any]:
    """A wire node of a topology; what is not given is as a bare `task.run` has it."""
    after = list(facts.pop("after", ()))
    on_failure = list(facts.pop("on_failure", ()))
    return {
        "id": id_,
        "name": id_,
        "kind": "task",
        "variant": "run",
        "level": 0,
        "dependsOn": list(dict.fromkeys([*after, *on_failure])),
        "after": after,
        "onFailure": on_failure,
        "continueOnFailure": False,
        "idempotent": False,
        "retries": 0,
        "timeoutMs": 60_000,
        "image": "busybox:1.36",
        **facts,
    }


def topology(*nodes: dict[str, Any]) -> tuple[dict[str, Any], ...]:
    """The nodes with their levels, in level order."""
    levels: dict[str, int] = {}
    for each in nodes:  # written in an order in which needs come first
        levels[each["id"]] = max((levels[need] + 1 for need in each["dependsOn"]), default=0)
    leveled = [{**each, "level": levels[each["id"]]} for each in nodes]
    return tuple(sorted(leveled, key=lambda each: each["level"]))


def suite(
    *nodes: dict[str, Any],
    id_: str = "demo",
    files: Mapping[str, bytes] | None = None,
    imports: tuple[ImportedSuite, ...] = (),
    mocks: Mapping[str, Mapping[str, str]] | None = None,
    keep_on_failure_ms: int = 0,
) -> ResolvedSuite:
    definition: Any = {
        "id": id_,
        "title": id_.capitalize(),
        "repository": f"workspace/{id_}",
        "sourceFiles": [],
    }
    return ResolvedSuite(
        id=id_,
        title=id_.capitalize(),
        repository=f"workspace/{id_}",
        version="workspace",
        description="",
        definition=definition,
        topology=topology(*nodes),
        files=files or {},
        content_digest="sha256:0",
        print_lines=(),
        imports=imports,
        mocks=mocks or {},
        keep_on_failure_ms=keep_on_failure_ms,
    )


def profile(**facts: Any) -> LaunchProfile:
    return LaunchProfile(**facts)


def secret(key: str, *, provider: str = "local", ref: str = "token") -> SecretRef:
    return SecretRef(key=key, provider=provider, ref=ref)


def accepted(
    *nodes: dict[str, Any],
    principal: Principal | None = None,
    with_profile: LaunchProfile | None = None,
    keep_ms: int | None = None,
    **facts: Any,
) -> Accepted:
    chosen = with_profile or profile()
    resolved = suite(*nodes, **facts)
    return Accepted(
        principal=principal or somebody(),
        request=api.LaunchRequest(suite_id=resolved.id, keep_alive_ms=keep_ms),
        suite=resolved,
        profile=chosen,
        backend=backends()[0],
        packed=packed_suite(resolved, chosen),
        request_id="",
    )


@dataclass(frozen=True)
class Run:
    """A stored run, looked at as the store has it now."""

    pk: uuid.UUID
    principal: Principal

    @property
    def row(self) -> Execution:
        return Execution.objects.get(pk=self.pk)

    @property
    def id(self) -> str:
        return self.row.run_id

    @property
    def status(self) -> str:
        return self.row.status

    def step(self, id_: str) -> Step:
        return Step.objects.get(execution_id=self.pk, step_id=id_)

    @property
    def statuses(self) -> dict[str, str]:
        """Step id → status; the run's own row must tell the same."""
        rows = list(Step.objects.filter(execution_id=self.pk).order_by("index"))
        told = "".join(
            status_code_of(
                StepStatus(row.status),
                JobState(row.job_state),
                attempt=row.attempt,
                repeats=bool(row.repeats),
                reason=row.reason,
            )
            for row in rows
        )
        assert self.row.standings == told
        return {row.step_id: row.status for row in rows}

    @property
    def reasons(self) -> dict[str, str]:
        rows = Step.objects.filter(execution_id=self.pk).exclude(reason="")
        return dict(rows.values_list("step_id", "reason"))

    def events(self) -> list[dict[str, Any]]:
        return _records(events_topic(self.id))

    def event_ids(self) -> list[str]:
        return [event["id"] for event in self.events()]

    def lines(self, *kinds: str) -> list[dict[str, Any]]:
        return [line for line in _records(logs_topic(self.id)) if line["kind"] in kinds]

    def output(self, source: str) -> list[str]:
        return [line["text"] for line in self.lines("output") if line["source"] == source]


def _records(topic: str) -> list[dict[str, Any]]:
    chunks = read(topic, after=0, limit=100_000)
    return [json.loads(record) for chunk in chunks for record in chunk.records]


def queued_run(*nodes: dict[str, Any], **facts: Any) -> Run:
    ready = accepted(*nodes, **facts)
    return Run(store_run(ready)[0], ready.principal)


def booted_run(*nodes: dict[str, Any], **facts: Any) -> Run:
    run = queued_run(*nodes, **facts)
    dispatch()
    return run


@dataclass
class Worker:
    """A supervisor whose steps end when the test says so; `jobs`: step id → claimed spec."""

    agent_id: str = "runner-1"
    incarnation: str = "first"
    backends: tuple[str, ...] = ("local-docker",)
    capabilities: tuple[str, ...] = ()
    jobs: dict[str, dict[str, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        register(
            Registration(
                agent_id=self.agent_id,
                incarnation=self.incarnation,
                kind="runner",
                backends=self.backends,
            )
        )

    @property
    def supervisor(self) -> api.SupervisorSession:
        return api.SupervisorSession(
            agent_id=self.agent_id,
            incarnation=self.incarnation,
            kinds=("local",),
            backends=self.backends,
            capabilities=self.capabilities,
        )

    def claim(self, limit: int = 100) -> list[str]:
        """The ids of the steps that were handed out."""
        claimed = api.record_reports(self.supervisor, claims=limit).claimed
        self.jobs.update({spec["node"]["id"]: spec for spec in claimed})
        return [spec["node"]["id"] for spec in claimed]

    def restarted(self) -> Worker:
        """The process that comes after this one."""
        return Worker(self.agent_id, f"{self.incarnation}+", self.backends, self.capabilities)

    def adopt(self, *jobs: dict[str, Any]) -> api.Adopted:
        return api.adopt(self.supervisor, [job_of(job) for job in jobs])

    def report(self, step: str, state: str) -> Any:
        return api.record_reports(self.supervisor, states=[self.state(step, state)]).states[0]

    def state(self, step: str, state: str = "running") -> StateReport:
        job = self.jobs[step]
        return StateReport(job=job_of(job), state=state)

    def log(self, step: str, *texts: str, seq: int = 0, position: int | None = None) -> Any:
        return api.record_reports(
            self.supervisor, chunks=[self.chunk(step, *texts, seq=seq, position=position)]
        ).chunks[0]

    def chunk(self, step: str, *texts: str, seq: int = 0, position: int | None = None) -> LogChunk:
        job = self.jobs[step]
        return LogChunk(
            job=job_of(job),
            seq=seq,
            position=seq + len(texts) if position is None else position,
            lines=[output_line(text) for text in texts],
        )

    def end(self, step: str, status: str = "succeeded", **facts: Any) -> Any:
        done = self.completion(step, status, **facts)
        return api.record_reports(self.supervisor, completions=[done]).completions[0]

    def fail(self, step: str, **facts: Any) -> Any:
        facts = {"reason": "exit_nonzero", "exit_code": 1, "error": "exit code 1", **facts}
        return self.end(step, "failed", **facts)

    def completion(self, step: str, status: str = "succeeded", **facts: Any) -> Completion:
        job = self.jobs[step]
        if status == "succeeded":
            facts.setdefault("exit_code", 0)
        return Completion(job=job_of(job), status=status, **facts)

    def renew(self, *steps: str) -> list[Any]:
        return api.renew(self.supervisor, [job_of(self.jobs[step]) for step in steps])


def output_line(text: str, *, time: datetime | None = None) -> LogLine:
    return LogLine(time or clock.now(), "info", "output", text)


def let_leases_lapse(*, renewed: bool = False) -> None:
    """As if every lease had ended longer ago than anybody is waited for.

    `renewed`: at least once before.
    """
    long_ago = clock.now() - 10 * (conf.lease() + conf.lease_owner_patience())
    Step.objects.filter(lease_expires_at__isnull=False).update(lease_expires_at=long_ago)
    if renewed:
        Step.objects.filter(lease_expires_at=long_ago).update(
            started_at=long_ago - 2 * conf.lease()
        )


def stand_still(seconds: float) -> None:
    """As if nobody had renewed a lease, or said that it lives, for so long."""
    since = clock.now() - timedelta(seconds=seconds)
    Step.objects.filter(lease_expires_at__isnull=False).update(
        lease_expires_at=since + conf.lease()
    )
    Agent.objects.update(last_heartbeat_at=since)


def deadline_is_over(run: Run) -> None:
    Execution.objects.filter(pk=run.pk).update(deadline=clock.now())


def let_retries_be_due() -> None:
    Step.objects.filter(not_before__isnull=False).update(not_before=clock.now())
