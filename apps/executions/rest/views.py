"""`/api/v1/executions` and `/api/v1/engine`: runs (reference: control-plane 11.1, 16)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial
from typing import Any, ClassVar

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from apps.executions import api
from apps.executions.rest import parameters, schemas
from apps.executions.rest.base import ExecutionsView
from apps.http.rest import (
    PAGING,
    conditional_response,
    paginate,
    paginate_queryset,
    requested_page,
    require_match,
    write_cursor,
)
from kernel.errors import NotAvailable

Parameters = Collection[str] | Mapping[str, Collection[str]]


class LaunchSuitesView(ExecutionsView):
    query_parameters: ClassVar[Parameters] = PAGING

    @extend_schema(
        operation_id="launch_suites",
        parameters=parameters.PAGING_PARAMETERS,
        responses=schemas.LaunchSuites,
    )
    def get(self, request: Request) -> Response:
        suites = api.launch_suites()
        page = paginate(request, suites, key=lambda suite: (suite["title"], suite["id"]))
        return Response(page.as_dict("suites", page.items, total=len(suites)))


class OverviewView(ExecutionsView):
    query_parameters: ClassVar[Parameters] = frozenset({"workspaceId"})

    @extend_schema(
        parameters=[parameters.query("workspaceId", "administrators: only this workspace")],
        responses=schemas.Overview,
    )
    def get(self, request: Request) -> Response:
        workspace_id = request.query_params.get("workspaceId")
        return Response(api.overview(self.principal, workspace_id=workspace_id))


class ExecutionListView(ExecutionsView):
    query_parameters: ClassVar[Parameters] = {"GET": PAGING | parameters.FILTERS}

    @extend_schema(
        operation_id="executions_list",
        parameters=[*parameters.FILTER_PARAMETERS, *parameters.PAGING_PARAMETERS],
        responses=schemas.ExecutionList,
    )
    def get(self, request: Request) -> Response:
        workspace_id = request.query_params.get("workspaceId")
        wanted = parameters.run_filter(request)
        rows = api.matching_runs(self.principal, wanted, workspace_id=workspace_id)
        page = paginate_queryset(request, rows, order=api.NEWEST_FIRST)
        return Response(page.as_dict("executions", api.summaries(page.items), total=rows.count()))

    @extend_schema(
        operation_id="executions_launch",
        parameters=[
            OpenApiParameter("Idempotency-Key", str, OpenApiParameter.HEADER),
        ],
        request=schemas.LaunchInput,
        responses={201: schemas.Summary},
    )
    def post(self, request: Request) -> Response:
        self.limit_launches()
        idempotency = self.idempotency()
        wanted = _launch_request(self.body(schemas.LaunchInput))
        launched = api.launch_once(self.principal, wanted, idempotency=idempotency)
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
    )


class ExecutionDetailView(ExecutionsView):
    query_parameters: ClassVar[Parameters] = {"GET": frozenset({"omit"})}

    @extend_schema(
        operation_id="executions_detail",
        parameters=parameters.DETAIL_PARAMETERS,
        responses={200: schemas.Detail, 304: None},
    )
    def get(self, request: Request, **_path: str) -> Response:
        omit = parameters.omitted_parts(request)
        return conditional_response(request, api.detail(self.principal, self.run_id, omit=omit))

    @extend_schema(
        operation_id="executions_delete",
        parameters=[OpenApiParameter("If-Match", str, OpenApiParameter.HEADER)],
        responses={204: None},
    )
    def delete(self, request: Request, **_path: str) -> Response:
        api.delete(self.principal, self.run_id, require=partial(require_match, request))
        return Response(status=204)


class CancelView(ExecutionsView):
    @extend_schema(
        operation_id="executions_cancel",
        request=schemas.CancelInput,
        responses={202: schemas.Summary},
    )
    def post(self, request: Request, **_path: str) -> Response:
        api.get_execution(self.principal, self.run_id)
        body = self.body(schemas.CancelInput)
        summary = api.cancel(self.principal, self.run_id, reason=body.get("reason", ""))
        return Response(summary, status=202)


class RerunView(ExecutionsView):
    @extend_schema(
        operation_id="executions_rerun",
        request=schemas.RerunInput,
        responses={201: schemas.Summary},
    )
    def post(self, request: Request, **_path: str) -> Response:
        api.get_execution(self.principal, self.run_id)
        self.limit_launches()
        self.idempotency()
        self.body(schemas.RerunInput)
        raise NotAvailable("rerun is not available in this release; launch the suite instead")


class LogSearchView(ExecutionsView):
    query_parameters: ClassVar[Parameters] = PAGING | parameters.SEARCH

    @extend_schema(
        operation_id="executions_log_search",
        parameters=[*parameters.SEARCH_PARAMETERS, *parameters.PAGING_PARAMETERS],
        responses=schemas.LogMatches,
    )
    def get(self, request: Request, **_path: str) -> Response:
        api.get_execution(self.principal, self.run_id)
        wanted = parameters.line_filter(request)
        limit, place = requested_page(request)
        page = api.search_log(self.run_id, wanted, api.SearchState(*place or ()), limit=limit)
        body: dict[str, Any] = {"matches": page.matches, "total": page.total}
        if page.rest is not None:
            body["nextCursor"] = write_cursor(request, page.rest.as_key())
        return Response(body)
