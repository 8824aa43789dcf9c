"""`/api/v1/executions` and `/api/v1/engine`: runs and their files.

(reference: control-plane 11.1, 16)
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import timedelta
from functools import partial
from typing import Any, ClassVar, Final

from django.http import HttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.api import limit_rate
from apps.accounts.rest import PrincipalMixin
from apps.executions import api
from apps.executions.domain.kept_environments import KeepBody
from apps.executions.domain.rerun import RerunScope
from apps.executions.domain.runs import Concurrency, Idempotency, Launched, RunSummary
from apps.executions.rest import parameters, schemas
from apps.executions.rest.artifact_responses import HARMLESS, file_response
from apps.executions.selectors import artifact_files
from apps.executions.selectors.artifact_files import artifact_file
from apps.executions.selectors.attempts import SinceGreen
from apps.executions.selectors.detail import RunDetail
from apps.executions.selectors.junit_report import junit_document
from apps.executions.selectors.launchable import ReferencedSuiteBody, referenced_suite
from apps.executions.selectors.logs import LinePlace, SearchState, first_line_at, search_log
from apps.executions.selectors.overview import OverviewBody
from apps.executions.selectors.runs import NEWEST_FIRST, matching_runs, summaries
from apps.executions.services import cancellations, kept_environments, storage
from apps.executions.services.kept_environments import extend as extend_keeping
from apps.executions.services.launch import launch_once
from apps.executions.services.rerun import RerunPlanBody, RerunRequest, launch_rerun, prepare_rerun
from apps.http.rest import (
    PAGING,
    StrictViewSet,
    conditional_response,
    paginate,
    paginate_queryset,
    requested_page,
    require_match,
    write_cursor,
)

Parameters = Collection[str] | Mapping[str, Collection[str]]
LAUNCHES: Final = "launches"  # POST executions and rerun together
LAUNCHES_A_MINUTE: Final = 30


# the streams of runs are raw views, in `streams`
class ExecutionViewSet(PrincipalMixin, StrictViewSet):
    lookup_url_kwarg = "executionId"
    query_parameters: ClassVar[Parameters] = {
        "launch_suites": PAGING,
        "resolve_ref": frozenset({"ref"}),
        "overview": frozenset({"workspaceId"}),
        "list": PAGING | parameters.FILTERS,
        "retrieve": frozenset({"omit"}),
        "log_search": PAGING | parameters.SEARCH,
        "log_line_at": frozenset({"ms"}),
    }

    @property
    def run_id(self) -> str:
        return str(self.kwargs["executionId"])

    def idempotency(self) -> Idempotency | None:
        """Return the idempotency key of the request; call this before the body is parsed.

        Raise InvalidParameter.
        """
        key = parameters.idempotency_key(self.request)
        if not key:
            return None
        return Idempotency(
            principal=self.principal.key,
            method=self.request.method or "",
            path=self.request.path,
            key=key,
            body=self.request.body,
        )

    def limit_launches(self) -> None:
        """Raise TooManyAttempts above the limit."""
        limit_rate(LAUNCHES, self.principal.key, LAUNCHES_A_MINUTE)

    @extend_schema(
        operation_id="launch_suites",
        parameters=parameters.PAGING_PARAMETERS,
        responses=schemas.LaunchSuitePage,
    )
    @action(detail=False, url_path="launch-suites")
    def launch_suites(self, request: Request) -> Response:
        suites = api.launch_suites()
        page = paginate(request, suites, key=lambda suite: (suite["title"], suite["id"]))
        return Response(page.as_dict("suites", page.items, total=len(suites)))

    @extend_schema(
        operation_id="executions_resolve_ref",
        description="Find the suite that a reference names, before a launch with it.",
        parameters=[
            parameters.query(
                "ref", "the id of a suite, or `host/path`, `:tag`, `@sha256:…`", required=True
            )
        ],
        responses=ReferencedSuiteBody,
    )
    @action(detail=False, url_path="resolve-ref")
    def resolve_ref(self, request: Request) -> Response:
        return Response(referenced_suite(parameters.reference(request)))

    @extend_schema(
        parameters=[parameters.query("workspaceId", "administrators: only this workspace")],
        responses=OverviewBody,
    )
    @action(detail=False)
    def overview(self, request: Request) -> Response:
        workspace_id = request.query_params.get("workspaceId")
        return Response(api.overview(self.principal, workspace_id=workspace_id))

    @extend_schema(
        operation_id="executions_list",
        parameters=[*parameters.FILTER_PARAMETERS, *parameters.PAGING_PARAMETERS],
        responses=schemas.ExecutionPage,
    )
    def list(self, request: Request) -> Response:
        workspace_id = request.query_params.get("workspaceId")
        wanted = parameters.run_filter(request)
        rows = matching_runs(self.principal, wanted, workspace_id=workspace_id)
        page = paginate_queryset(request, rows, order=NEWEST_FIRST)
        return Response(page.as_dict("executions", summaries(page.items), total=rows.count()))

    @extend_schema(
        operation_id="executions_launch",
        parameters=[
            OpenApiParameter("Idempotency-Key", str, OpenApiParameter.HEADER),
        ],
        request=schemas.LaunchInput,
        responses={201: RunSummary},
    )
    def create(self, request: Request) -> Response:
        self.limit_launches()
        idempotency = self.idempotency()
        wanted = _launch_request(self.body(schemas.LaunchInput))
        return _launch_response(launch_once(self.principal, wanted, idempotency=idempotency))

    @extend_schema(
        operation_id="executions_detail",
        parameters=parameters.DETAIL_PARAMETERS,
        responses={200: RunDetail, 304: None},
    )
    def retrieve(self, request: Request, **_path: str) -> Response:
        omit = parameters.omitted_parts(request)
        return conditional_response(request, api.detail(self.principal, self.run_id, omit=omit))

    @extend_schema(
        operation_id="executions_delete",
        parameters=[OpenApiParameter("If-Match", str, OpenApiParameter.HEADER)],
        responses={204: None},
    )
    def destroy(self, request: Request, **_path: str) -> Response:
        storage.delete(self.principal, self.run_id, require=partial(require_match, request))
        return Response(status=204)

    @extend_schema(
        operation_id="executions_cancel",
        request=schemas.CancelInput,
        responses={202: RunSummary},
    )
    @action(detail=True, methods=["post"])
    def cancel(self, request: Request, **_path: str) -> Response:
        api.get_execution(self.principal, self.run_id)
        body = self.body(schemas.CancelInput)
        summary = cancellations.cancel(self.principal, self.run_id, reason=body.get("reason", ""))
        return Response(summary, status=202)

    @extend_schema(
        operation_id="executions_rerun",
        description="With `dryRun`, only answer which steps would run again, and why (200).",
        parameters=[
            OpenApiParameter("Idempotency-Key", str, OpenApiParameter.HEADER),
        ],
        request=schemas.RerunInput,
        responses={
            200: OpenApiResponse(RerunPlanBody, "the plan, for `dryRun`"),
            201: RunSummary,
        },
    )
    @action(detail=True, methods=["post"])
    def rerun(self, request: Request, **_path: str) -> Response:
        api.get_execution(self.principal, self.run_id)
        idempotency = self.idempotency()
        body = self.body(schemas.RerunInput)
        wanted = RerunRequest(
            scope=RerunScope(body["scope"] or RerunScope.ALL),
            step=body.get("step") or "",
            profile=body.get("profile") or "",
            keep_alive_ms=body["keepAliveMs"],
        )
        if body["dryRun"]:
            return Response(prepare_rerun(self.principal, self.run_id, wanted).plan)
        self.limit_launches()
        rerun = launch_rerun(self.principal, self.run_id, wanted, idempotency=idempotency)
        return _launch_response(rerun)

    @extend_schema(
        operation_id="executions_keep",
        description="Keep the environment for `keepAliveMs` from now on.",
        request=schemas.KeepInput,
        responses=OpenApiResponse(KeepBody, "how the environment is kept"),
    )
    @action(detail=True, methods=["put"])
    def keep(self, _request: Request, **_path: str) -> Response:
        api.get_execution(self.principal, self.run_id)
        body = self.body(schemas.KeepInput)
        return Response(extend_keeping(self.principal, self.run_id, body["keepAliveMs"]))

    @extend_schema(
        operation_id="executions_keep_end",
        description="End the kept environment now; its runner removes it within seconds.",
        responses={204: None},
    )
    @keep.mapping.delete
    def end_keeping(self, _request: Request, **_path: str) -> Response:
        kept_environments.end(self.principal, self.run_id)
        return Response(status=204)

    @extend_schema(
        operation_id="executions_since_green",
        responses={200: OpenApiResponse(SinceGreen, "what differs, without any value")},
    )
    @action(detail=True, url_path="since-green")
    def since_green(self, _request: Request, **_path: str) -> Response:
        return Response(api.since_green(self.principal, self.run_id))

    @extend_schema(
        operation_id="executions_timeline",
        description="What each attempt of each step did from when to when, until now.",
        responses={200: OpenApiResponse(api.TimelineBody, "the timeline")},
    )
    @action(detail=True)
    def timeline(self, _request: Request, **_path: str) -> Response:
        return Response(api.timeline(self.principal, self.run_id))

    @extend_schema(
        operation_id="executions_log_line_at",
        description="Find the first log line written at an instant or later; without `id`, "
        "there is none.",
        parameters=[
            parameters.query(
                "ms",
                "milliseconds since the acceptance of the run",
                {"type": "integer", "minimum": 0},
                required=True,
            )
        ],
        responses={200: LinePlace},
    )
    @action(detail=True, url_path="logs/at")
    def log_line_at(self, request: Request, **_path: str) -> Response:
        run = api.get_execution(self.principal, self.run_id)
        offset_ms = parameters.offset_ms(request.query_params, "ms")
        instant = run.started_at + timedelta(milliseconds=offset_ms)
        return Response(first_line_at(self.run_id, instant))

    @extend_schema(
        operation_id="executions_log_search",
        parameters=[*parameters.SEARCH_PARAMETERS, *parameters.PAGING_PARAMETERS],
        responses=schemas.LogMatchPage,
    )
    @action(detail=True, url_path="logs/search")
    def log_search(self, request: Request, **_path: str) -> Response:
        api.get_execution(self.principal, self.run_id)
        wanted = parameters.line_filter(request)
        limit, place = requested_page(request)
        page = search_log(self.run_id, wanted, SearchState(*place or ()), limit=limit)
        body = {"matches": page.matches, "total": page.total, "sources": page.sources}
        if page.rest is None:
            return Response(body)
        return Response({**body, "nextCursor": write_cursor(request, page.rest.as_key())})

    @extend_schema(
        operation_id="executions_artifact",
        responses={(200, "*/*"): OpenApiTypes.BINARY, (206, "*/*"): OpenApiTypes.BINARY, 304: None},
    )
    @action(detail=True, url_path="artifacts/<str:artifactId>")
    def artifact(self, request: Request, **_path: str) -> HttpResponse:
        file = artifact_file(self.principal, self.run_id, str(self.kwargs["artifactId"]))
        return file_response(request, file)

    @extend_schema(
        operation_id="executions_artifact_image",
        description="An artifact that is a PNG, JPEG, GIF or WebP by its bytes, to be shown.",
        responses={(200, "image/*"): OpenApiTypes.BINARY, 304: None},
    )
    @action(detail=True, url_path="artifacts/<str:artifactId>/image")
    def artifact_image(self, request: Request, **_path: str) -> HttpResponse:
        file = artifact_files.artifact_image(
            self.principal, self.run_id, str(self.kwargs["artifactId"])
        )
        return file_response(request, file, is_shown=True)

    @extend_schema(
        operation_id="executions_junit",
        responses={(200, "application/xml"): OpenApiTypes.STR},
    )
    @action(detail=True)
    def junit(self, request: Request, **_path: str) -> HttpResponse:
        document = junit_document(self.principal, self.run_id)
        return HttpResponse(document, content_type="application/xml", headers=HARMLESS)


def _launch_response(launched: Launched) -> Response:
    headers = {"Location": f"/api/v1/executions/{launched.summary['id']}"}
    if launched.replayed:
        headers["Idempotent-Replayed"] = "true"
    return Response(launched.summary, status=201, headers=headers)


def _launch_request(body: Mapping[str, Any]) -> api.LaunchRequest:
    return api.LaunchRequest(
        suite_id=body["suiteId"],
        profile=body.get("profile", ""),
        backend=body.get("backend", ""),
        keep_alive_ms=body["keepAliveMs"],
        trigger=body["trigger"],
        author=body.get("author", ""),
        commit=body.get("commit", ""),
        branch=body.get("branch", ""),
        message=body.get("message", ""),
        concurrency=_concurrency(body.get("concurrency")),
    )


def _concurrency(given: Mapping[str, Any] | None) -> Concurrency | None:
    if not given:
        return None
    return Concurrency(group=given["group"], cancel_in_progress=bool(given.get("cancelInProgress")))
