"""`/api/v1/agent-control/jobs/{jobId}`: the reports of a worker about its jobs.

Each view passes one report to executions, which refuses those of another attempt, agent or
incarnation with 409 `stale_attempt`.

(reference: control-plane 15.1)
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Mapping
from typing import Any, ClassVar, Final

from django.http import HttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework.parsers import BaseParser
from rest_framework.request import Request
from rest_framework.response import Response

from apps.executions import api as executions
from apps.http.rest import InvalidParameter, choice_parameter, integer_parameter
from apps.workers.rest import inputs, schemas
from apps.workers.rest.credentials import UNCACHED, AgentView
from apps.workers.services.remote_workers import record
from kernel import clock
from kernel.agent_protocol import (
    ARTIFACT_PATH_CHARACTERS,
    ArtifactUpload,
    Completion,
    Job,
    LogChunk,
    MissingArtifact,
    ProbeProgress,
    StateReport,
    StepUsage,
)

FORMATS: Final = ("raw", "junit", "cobertura", "ctrf")
MOMENTS: Final = ("success", "failure", "always")
_JOB_ID: Final = re.compile(r"^job_[A-Za-z0-9_-]{22}\Z")
_NAME_LENGTH: Final = 200
_UNPRINTABLE: Final = re.compile("[\x00-\x1f\x7f\ud800-\udfff]")
_MEDIA_TYPE: Final = re.compile(r"^[\w.+-]{1,80}/[\w.+-]{1,80}(; ?[\w.+=\"-]{1,80})?\Z", re.ASCII)


class JobView(AgentView):
    @property
    def job_id(self) -> str:
        """The id in the path. Raises JobNotFound for a malformed one."""
        job_id = str(self.kwargs["jobId"])
        if not _JOB_ID.match(job_id):
            raise executions.JobNotFound
        return job_id

    def job(self, attempt: int) -> Job:
        return Job(job_id=self.job_id, attempt=attempt)

    def job_of_query(self, request: Request) -> Job:
        """Return the job of the path and of the parameter `attempt`, which is required.

        Raises JobNotFound for an unknown job, and InvalidParameter for an attempt of a known one.
        """
        if not executions.is_job(self.job_id):
            raise executions.JobNotFound
        if "attempt" not in request.query_params:
            raise InvalidParameter("attempt is required: a whole number")
        return self.job(integer_parameter(request, "attempt", default=0, low=1, high=inputs.INT32))


class LeaseView(JobView):
    @extend_schema(
        operation_id="jobs_lease", request=inputs.LeaseInput, responses=schemas.LeaseAnswer
    )
    def post(self, request: Request, **_path: str) -> Response:
        body = self.own_body(inputs.LeaseInput)
        job, usage = self.job(body["attempt"]), usage_of(body)
        probe = _probe_of(body)
        (lease,) = executions.renew(
            self.supervisor,
            [job],
            {job: usage} if usage else {},
            {job: probe} if probe else {},
        )
        if isinstance(lease, executions.StaleAttempt):
            raise lease if executions.is_job(job.job_id) else executions.JobNotFound
        answer: schemas.LeaseAnswer = {
            "status": lease.status,
            "cancelRequested": bool(lease.cancel_reason),
            **stop_fields(lease.cancel_reason),
            "leaseMs": lease.lease_ms,
            "leaseExpiresAt": clock.rfc3339(lease.expires_at),
            "leaseGraceMs": round((lease.lease_grace_s or 0) * 1000),
        }
        return Response(answer)


class StateView(JobView):
    @extend_schema(
        operation_id="jobs_state", request=inputs.StateInput, responses=schemas.StateAnswer
    )
    def post(self, request: Request, **_path: str) -> Response:
        body = self.own_body(inputs.StateInput)
        report = StateReport(
            job=self.job(body["attempt"]),
            state=body["state"],
            message=body.get("message", ""),
            detail=body.get("detail", ""),
        )
        recorded = record(self.supervisor, report)
        answer: schemas.StateAnswer = {
            "status": "recorded",
            **stop_fields(recorded.cancel_reason),
        }
        return Response(answer)


class LogsView(JobView):
    @extend_schema(operation_id="jobs_logs", request=inputs.LogsInput, responses=schemas.LogsAnswer)
    def post(self, request: Request, **_path: str) -> Response:
        body = self.own_body(inputs.LogsInput)
        chunk = LogChunk(
            job=self.job(body["attempt"]),
            seq=body["seq"],
            position=body["position"],
            lines=body["lines"],
        )
        recorded = record(self.supervisor, chunk)
        answer: schemas.LogsAnswer = {
            "status": "recorded",
            "nextSeq": recorded.next_seq,
            **stop_fields(recorded.cancel_reason),
        }
        return Response(answer)


class CompleteView(JobView):
    @extend_schema(
        operation_id="jobs_complete",
        request=inputs.CompleteInput,
        responses=schemas.CompleteAnswer,
    )
    def post(self, request: Request, **_path: str) -> Response:
        body = self.own_body(inputs.CompleteInput)
        completion = Completion(
            job=self.job(body["attempt"]),
            status=body.get("status", ""),
            error=body.get("error", ""),
            reason=body.get("reason", ""),
            exit_code=body.get("exitCode"),
            final_seq=body.get("finalSeq"),
            usage=usage_of(body),
            missing_artifacts=tuple(
                MissingArtifact(path=each["path"], hint=each.get("hint", ""))
                for each in body.get("missingArtifacts", ())
            ),
        )
        record(self.supervisor, completion)
        answer: schemas.CompleteAnswer = {"status": "completed"}
        return Response(answer)


class ContentView(JobView):
    query_parameters: ClassVar[Collection[str] | Mapping[str, Collection[str]]] = {
        "GET": {"attempt"}
    }

    @extend_schema(
        operation_id="jobs_content",
        parameters=[schemas.query("attempt", schemas.WHOLE, required=True)],
        responses={(200, "application/gzip"): OpenApiTypes.BINARY},
    )
    def get(self, request: Request, **_path: str) -> HttpResponse:
        """The source suite's files; `Digest` is `content.digest` of the step spec."""
        job = self.job_of_query(request)
        body = executions.source_content(self.supervisor, job)
        digest = f"sha256:{hashlib.sha256(body).hexdigest()}"
        headers = UNCACHED | {"Digest": digest}
        return HttpResponse(body, content_type="application/gzip", headers=headers)


class AnyBytes(BaseParser):
    """The body as it is: files have any media type."""

    media_type = "*/*"

    def parse(self, stream: Any, media_type: Any = None, parser_context: Any = None) -> Any:
        return stream.read()


class ArtifactsView(JobView):
    parser_classes: Any = [AnyBytes]
    query_parameters: ClassVar[Collection[str] | Mapping[str, Collection[str]]] = {
        "POST": {"attempt", "path", "name", "format", "on"}
    }

    @extend_schema(
        operation_id="jobs_artifact",
        parameters=[
            schemas.query("attempt", schemas.WHOLE, required=True),
            schemas.query("path", required=True),
            schemas.query("name"),
            schemas.query("format", enum=list(FORMATS)),
            schemas.query("on", enum=list(MOMENTS)),
        ],
        request={"application/octet-stream": OpenApiTypes.BINARY},
        responses={200: schemas.ArtifactAnswer, 201: schemas.ArtifactAnswer},
    )
    def post(self, request: Request, **_path: str) -> Response:
        """At most 10 MiB; 200 for the same path and bytes again."""
        job = self.job_of_query(request)
        artifact_id, is_new = executions.store_artifact(self.supervisor, job, _upload(request))
        answer: schemas.ArtifactAnswer = {"artifactId": artifact_id}
        return Response(answer, status=201 if is_new else 200)


def _upload(request: Request) -> ArtifactUpload:
    path, declared = _text(request, "path", ARTIFACT_PATH_CHARACTERS), request.content_type or ""
    if not path:
        raise InvalidParameter("path is required: where the step wrote the file")
    return ArtifactUpload(
        path=path,
        name=_text(request, "name", _NAME_LENGTH),
        format=choice_parameter(request, "format", FORMATS, default="raw"),
        on=choice_parameter(request, "on", MOMENTS, default="success"),
        media_type=declared if _MEDIA_TYPE.match(declared) else "application/octet-stream",
        body=request.body,
    )


def _text(request: Request, name: str, longest: int) -> str:
    text = request.query_params.get(name, "")
    if len(text) > longest or _UNPRINTABLE.search(text):
        raise InvalidParameter(f"{name} has at most {longest} characters and no control characters")
    return text


def _probe_of(body: Mapping[str, Any]) -> ProbeProgress | None:
    probe = body.get("probe")
    if not probe:
        return None
    return ProbeProgress(
        answer=probe["answer"], tries=probe["tries"], time_left_ms=probe["timeLeftMs"]
    )


def usage_of(body: Mapping[str, Any]) -> StepUsage | None:
    usage = body.get("usage")
    if not usage:
        return None
    return StepUsage(
        cpu_percent=usage.get("cpuPercent"),
        memory_bytes=usage.get("memoryBytes"),
        memory_peak_bytes=usage.get("memoryPeakBytes"),
    )


def stop_fields(cancel_reason: str) -> schemas.StopFields:
    """Return the members of an answer that ask to stop the job (reference: control-plane 15.2)."""
    return {"cancelRequested": True, "cancelReason": cancel_reason} if cancel_reason else {}
