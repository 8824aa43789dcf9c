"""`/api/v1/agents`: register, heartbeats, drain, remove (reference: control-plane 15.1)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, ClassVar, Final

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.rest import IsAdmin
from apps.agents import api as agents
from apps.executions.api import Adopted, releasable_runs
from apps.http.rest import (
    PAGING,
    StrictAPIView,
    StrictSerializer,
    StrictViewSet,
    choice_parameter,
    paginate,
)
from apps.observability.api import audit_agent
from apps.operations.api import installation_id
from apps.workers import conf
from apps.workers.rest import credentials, inputs, schemas
from apps.workers.services.remote_workers import register_worker, remove_agent
from kernel import clock, ids
from kernel.agent_protocol import Job

HEARTBEAT_MS: Final = 10_000
STATUSES: Final = ("online", "offline")
_AGENT_ID_LENGTH: Final = 128


class AgentViewSet(StrictViewSet):
    authentication_classes: Any = [credentials.AgentOrSessionAuthentication]
    lookup_url_kwarg = "agentId"
    query_parameters: ClassVar[Collection[str] | Mapping[str, Collection[str]]] = {
        "list": PAGING | {"status"}
    }

    def get_permissions(self) -> list[Any]:
        """One agent is removed by itself or by administrators; all are listed for everybody."""
        kind = credentials.IsThatAgentOrAdmin if self.detail else credentials.IsAgentOrSignedIn
        return [kind()]

    @extend_schema(
        operation_id="agents_list",
        auth=credentials.AGENT_OR_SESSION,
        parameters=[
            schemas.query("status", enum=list(STATUSES)),
            schemas.query("limit", {"type": "integer", "minimum": 1, "maximum": 200}),
            schemas.query("cursor"),
        ],
        responses=schemas.AgentPage,
    )
    def list(self, request: Request) -> Response:
        wanted = choice_parameter(request, "status", STATUSES)
        now = clock.now()
        wires = [agent.as_wire(now) for agent in agents.list_agents()]
        found = [wire for wire in wires if wanted in ("", wire["status"])]
        page = paginate(request, found, key=lambda wire: (wire["name"], wire["agentId"]))
        return Response(page.as_dict("agents", page.items))

    @extend_schema(
        operation_id="agents_remove",
        auth=credentials.AGENT_OR_SESSION,
        responses={200: schemas.Removed},
    )
    def destroy(self, request: Request, **_path: str) -> Response:
        agent_id = str(self.kwargs["agentId"])
        if _can_be_registered(agent_id):
            remove_agent(agent_id)
        answer: schemas.Removed = {"status": "removed"}
        return Response(answer)


class RegisterView(StrictAPIView):
    authentication_classes: Any = [credentials.SharedSecretAuthentication]
    permission_classes: Any = [credentials.MayRegister]

    @extend_schema(
        operation_id="agents_register",
        request=inputs.RegisterInput,
        responses={201: schemas.Registered},
    )
    def post(self, request: Request) -> Response:
        body = self.body(inputs.RegisterInput)
        audit_agent(body["agentId"])
        active = [
            Job(job_id=job["jobId"], attempt=job["attempt"]) for job in body.get("activeJobs", ())
        ]
        registered, adopted = register_worker(_registration(body), active)
        answer: schemas.Registered = {
            **registered.agent.as_wire(clock.now()),
            "agentToken": registered.agent_token,
            "installationId": installation_id(),
            "heartbeatIntervalMs": HEARTBEAT_MS,
            "leaseMs": round(conf.lease_s() * 1000),
            "leaseGraceMs": round(conf.lease_grace_s() * 1000),
            **_adoption_document(adopted),
        }
        return Response(answer, status=201, headers=credentials.UNCACHED)


class HeartbeatView(credentials.AgentView):
    @extend_schema(
        operation_id="agents_heartbeat",
        request=inputs.HeartbeatInput,
        responses=schemas.Heard,
    )
    def post(self, request: Request, **_path: str) -> Response:
        body = self.body(inputs.HeartbeatInput)
        runs = body.get("runs", ())
        agent = agents.heartbeat(
            self.agent.agent_id,
            incarnation=self.agent.incarnation,
            running_jobs=body.get("runningJobs"),
            runtime_available=body["runtimeAvailable"],
            runs=runs,
            failing_loops=body.get("failingLoops", ()),
        )
        answer: schemas.Heard = {
            **agent.as_wire(clock.now()),
            "releaseRuns": releasable_runs(runs),
        }
        return Response(answer)


class DrainView(StrictAPIView):
    permission_classes = [IsAdmin]

    @extend_schema(operation_id="agents_drain", request=None, responses=agents.AgentDocument)
    def post(self, request: Request, **_path: str) -> Response:
        self.body(StrictSerializer)
        agent = _named_agent(self)
        agents.drain(agent.agent_id, by=getattr(request.user, "full_name", ""))
        return Response(_named_agent(self).as_wire(clock.now()))


class ResumeView(StrictAPIView):
    permission_classes = [IsAdmin]

    @extend_schema(operation_id="agents_resume", request=None, responses=agents.AgentDocument)
    def post(self, request: Request, **_path: str) -> Response:
        self.body(StrictSerializer)
        agents.resume(_named_agent(self).agent_id)
        return Response(_named_agent(self).as_wire(clock.now()))


def _named_agent(view: StrictAPIView) -> agents.Agent:
    """Return the agent that the path names; raise AgentNotFound."""
    agent_id = str(view.kwargs["agentId"])
    if not _can_be_registered(agent_id):
        raise agents.AgentNotFound
    return agents.get_agent(agent_id)


def _can_be_registered(agent_id: str) -> bool:
    return agent_id.isascii() and agent_id.isprintable() and len(agent_id) <= _AGENT_ID_LENGTH


def _registration(body: Mapping[str, Any]) -> agents.Registration:
    return agents.Registration(
        agent_id=body["agentId"],
        incarnation=body.get("incarnation") or str(ids.new_uuid()),
        kind="worker",
        name=body.get("name", ""),
        host_url=body.get("hostUrl", ""),
        capabilities=tuple(body.get("capabilities", ())),
        backends=tuple(body.get("backends", ())),
        labels=body.get("labels", {}),
        version=body.get("version", ""),
    )


def _adoption_document(adopted: Adopted) -> schemas.Adoption:
    keep: list[schemas.KeptJob] = [
        {
            "jobId": kept.job.job_id,
            "attempt": kept.job.attempt,
            "nextSeq": kept.next_seq,
            "position": kept.position,
        }
        for kept in adopted.keep
    ]
    return {"keepJobs": keep, "dropJobs": list(adopted.drop)}
