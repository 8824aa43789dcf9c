"""Base classes of the agent routes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from rest_framework.request import Request

from apps.agents.api import Agent
from apps.executions.api import JobNotFound, SupervisorSession, is_job
from apps.http.rest import InvalidParameter, StrictAPIView, integer_parameter
from apps.workers.rest.credentials import AgentAuthentication, AgentMismatch, IsAgent
from apps.workers.rest.inputs import INT32, AgentSerializer
from apps.workers.services.registration import supervisor_of
from kernel.agent_protocol import Job, StepUsage

_JOB_ID: Final = re.compile(r"^job_[A-Za-z0-9_-]{22}\Z")
# These answers contain tokens and secrets: no proxy may store them.
UNCACHED: Final = {"Cache-Control": "no-store"}


class AgentView(StrictAPIView):
    """A route for a worker with its own token."""

    authentication_classes: Any = [AgentAuthentication]
    permission_classes: Any = [IsAgent]

    @property
    def agent(self) -> Agent:
        agent = self.request.user
        if not isinstance(agent, Agent):
            raise TypeError("the permission lets only agents through")
        return agent

    @property
    def supervisor(self) -> SupervisorSession:
        return supervisor_of(self.agent)

    def own_body(self, serializer: type[AgentSerializer]) -> dict[str, Any]:
        """Return the validated body. Raises InvalidInput, AgentMismatch for another agent's id."""
        body = self.body(serializer)
        if body["agentId"] != self.agent.agent_id:
            raise AgentMismatch
        return body


class JobView(AgentView):
    @property
    def job_id(self) -> str:
        """The id in the path. Raises JobNotFound for a malformed one."""
        job_id = str(self.kwargs["jobId"])
        if not _JOB_ID.match(job_id):
            raise JobNotFound
        return job_id

    def job(self, attempt: int) -> Job:
        return Job(job_id=self.job_id, attempt=attempt)

    def job_of_query(self, request: Request) -> Job:
        """Return the job of the path and of the parameter `attempt`, which is required.

        Raises JobNotFound for an unknown job, and InvalidParameter for an attempt of a known one.
        """
        if not is_job(self.job_id):
            raise JobNotFound
        if "attempt" not in request.query_params:
            raise InvalidParameter("attempt is required: a whole number")
        return self.job(integer_parameter(request, "attempt", default=0, low=1, high=INT32))


def usage_of(body: Mapping[str, Any]) -> StepUsage | None:
    usage = body.get("usage")
    if not usage:
        return None
    return StepUsage(
        cpu_percent=usage.get("cpuPercent"),
        memory_bytes=usage.get("memoryBytes"),
        memory_peak_bytes=usage.get("memoryPeakBytes"),
    )


def stop_fields(cancel_reason: str) -> dict[str, object]:
    """Return the members of an answer that ask to stop the job (reference: control-plane 15.2)."""
    return {"cancelRequested": True, "cancelReason": cancel_reason} if cancel_reason else {}
