"""`/api/v1/mocks`: why a call is answered as it is, state and calls of spaces.

(reference: control-plane 18.1)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.rest import PrincipalMixin
from apps.http.rest import (
    PAGING,
    InvalidParameter,
    StrictAPIView,
    choice_parameter,
    paginate,
)
from apps.mocks import api
from apps.mocks.rest import schemas
from kernel.errors import FieldError, InvalidInput

SPACE: Final = frozenset({"suiteId", "executionId", "import"})


class MockView(PrincipalMixin, StrictAPIView):
    def readable(self, request: Request) -> api.SpaceName:
        name = named_space(request)
        api.require_space_reader(self.principal, name)
        return name

    def writable(self, name: api.SpaceName) -> api.SpaceName:
        api.require_space_writer(self.principal, name)
        return name


class ExplainView(MockView):
    @extend_schema(
        operation_id="mocks_explain",
        request=schemas.ExplainInput,
        responses=api.Explanation,
    )
    def post(self, request: Request) -> Response:
        given = self.body(schemas.ExplainInput)
        name = space_of(given)
        defaults_only = name.is_shared and not self.principal.is_admin
        if not name.is_shared:
            api.require_space_reader(self.principal, name)
        call = api.ExplainedCall(
            surface_id=given["surfaceId"],
            operation_id=given.get("operationId", ""),
            method=given.get("method", ""),
            path=given.get("path", ""),
            headers=given.get("headers", {}),
            query=given.get("query", {}),
            body=given.get("body", ""),
        )
        return Response(api.explain_call(name, call, defaults_only=defaults_only))


class StateView(MockView):
    query_parameters: ClassVar[Any] = {
        "GET": PAGING | SPACE | {"key"},
        "DELETE": SPACE | {"key", "surfaceId"},
    }

    @extend_schema(
        operation_id="mocks_state",
        parameters=[*schemas.SPACE, *schemas.KEY, *schemas.PAGE],
        responses=schemas.StatePage,
    )
    def get(self, request: Request) -> Response:
        name = self.readable(request)
        state = api.read_state(name, key=request.query_params.get("key", ""))
        page = paginate(request, state.records, key=lambda record: (record.key,))
        counters = [api.counter_document(each) for each in state.counters]
        records = [api.record_document(each) for each in page.items]
        return Response(page.as_dict("records", records, counters=counters))

    @extend_schema(
        operation_id="mocks_state_patch",
        request=schemas.PatchInput,
        responses=api.RecordDocument,
    )
    def patch(self, request: Request) -> Response:
        given = self.body(schemas.PatchInput)
        name = self.writable(space_of(given))
        patch = api.StatePatch(
            key=given["key"],
            set=given.get("set", {}),
            delete=given.get("delete", []),
            version=given.get("version"),
            surface_id=given.get("surfaceId", ""),
        )
        return Response(api.record_document(api.patch_state(name, patch)))

    @extend_schema(
        operation_id="mocks_state_reset",
        parameters=[*schemas.SPACE, *schemas.KEY, *schemas.SURFACE],
        request=None,
        responses={200: schemas.RemovedNumber},
    )
    def delete(self, request: Request) -> Response:
        name = self.writable(named_space(request))
        query = request.query_params
        removed = api.remove_state(
            name, surface_id=query.get("surfaceId", ""), key=query.get("key", "")
        )
        answer: schemas.RemovedNumber = {"removed": removed}
        return Response(answer)


class JournalView(MockView):
    query_parameters: ClassVar[Any] = {
        "GET": PAGING | SPACE | {"surfaceId", "operationId", "outcome"},
        "DELETE": SPACE | {"surfaceId", "operationId"},
    }

    @extend_schema(
        operation_id="mocks_journal",
        parameters=[*schemas.SPACE, *schemas.OPERATION, *schemas.OUTCOME, *schemas.PAGE],
        responses=schemas.JournalPage,
    )
    def get(self, request: Request) -> Response:
        name = self.readable(request)
        query = request.query_params
        wanted = api.CallFilter(
            surface_id=query.get("surfaceId", ""),
            operation_id=query.get("operationId", ""),
            outcome=choice_parameter(request, "outcome", schemas.OUTCOMES),
        )
        found = api.read_journal(name, wanted)
        page = paginate(request, found, key=lambda call: (call.time, call.id), descending=True)
        calls = [api.call_document(each) for each in page.items]
        return Response(page.as_dict("entries", calls))

    @extend_schema(
        operation_id="mocks_journal_clear",
        parameters=[*schemas.SPACE, *schemas.OPERATION],
        request=None,
        responses={200: schemas.RemovedNumber},
    )
    def delete(self, request: Request) -> Response:
        name = self.writable(named_space(request))
        query = request.query_params
        removed = api.clear_journal(
            name,
            surface_id=query.get("surfaceId", ""),
            operation_id=query.get("operationId", ""),
        )
        answer: schemas.RemovedNumber = {"removed": removed}
        return Response(answer)


def named_space(request: Request) -> api.SpaceName:
    """Return the space that the query names; raise InvalidParameter."""
    if not request.query_params.get("suiteId"):
        raise InvalidParameter("suiteId is required")
    name, pointer, problem = _space(request.query_params)
    if problem:
        raise InvalidParameter(f"{pointer}: {problem}")
    return name


def space_of(body: Mapping[str, Any]) -> api.SpaceName:
    """Return the space that a body names; raise InvalidInput."""
    name, pointer, problem = _space(body)
    if problem:
        fault = FieldError(pointer=f"/{pointer}", code="invalid_value", detail=problem)
        raise InvalidInput(f"{pointer}: {problem}", errors=[fault])
    return name


def _space(given: Mapping[str, Any]) -> tuple[api.SpaceName, str, str]:
    """Return the space, and the key at fault with what is wrong."""
    run, path = given.get("executionId", ""), given.get("import", "")
    if path and not run:
        return api.SpaceName(""), "import", "it is a path in a run and needs executionId"
    name = api.SpaceName(given["suiteId"], run, path)
    read = api.SpaceName.parse(str(name))
    if read == name:
        return name, "", ""
    if read is None or read.suite_id != name.suite_id:
        return name, "suiteId", "not the id of a suite"
    return name, "import" if read.execution_id == run else "executionId", "not a valid id"
