"""`/api/v1/mocks`: why a call is answered as it is, whether it came, state and calls of spaces.

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
from apps.mocks.access import require_reader, require_writer
from apps.mocks.rest import schemas
from apps.mocks.services import inspection
from kernel.errors import FieldError, InvalidInput
from mocks.engine.call_filters import CallFilter
from mocks.engine.documents import (
    Explanation,
    RecordDocument,
    call_document,
    counter_document,
    record_document,
)
from mocks.engine.inspection import ExplainedCall
from mocks.engine.verification import Verification, VerifyInput, check_tag, read_question
from mocks.model.spaces import SpaceName

SPACE: Final = frozenset({"suiteId", "executionId", "import"})


class MockView(PrincipalMixin, StrictAPIView):
    def readable(self, request: Request) -> SpaceName:
        name = named_space(request)
        require_reader(self.principal, name)
        return name

    def writable(self, name: SpaceName) -> SpaceName:
        require_writer(self.principal, name)
        return name


class ExplainView(MockView):
    @extend_schema(
        operation_id="mocks_explain",
        request=schemas.ExplainInput,
        responses=Explanation,
    )
    def post(self, request: Request) -> Response:
        given = self.body(schemas.ExplainInput)
        name = space_of(given)
        defaults_only = name.is_shared and not self.principal.is_admin
        if not name.is_shared:
            require_reader(self.principal, name)
        call = ExplainedCall(
            surface_id=given["surfaceId"],
            operation_id=given.get("operationId", ""),
            method=given.get("method", ""),
            path=given.get("path", ""),
            headers=given.get("headers", {}),
            query=given.get("query", {}),
            body=given.get("body", ""),
        )
        return Response(inspection.explain_call(name, call, defaults_only=defaults_only))


class VerifyView(MockView):
    @extend_schema(operation_id="mocks_verify", request=VerifyInput, responses=Verification)
    def post(self, request: Request) -> Response:
        asked = read_question(request.data)
        given = asked.given
        name = space_of({"suiteId": given.suite_id, "executionId": given.execution_id,
                         "import": given.import_path})  # fmt: skip
        require_reader(self.principal, name)
        return Response(inspection.verify_calls(name, asked))


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
        state = inspection.read_state(name, key=request.query_params.get("key", ""))
        page = paginate(request, state.records, key=lambda record: (record.key,))
        counters = [counter_document(each) for each in state.counters]
        records = [record_document(each) for each in page.items]
        return Response(page.as_dict("records", records, counters=counters))

    @extend_schema(
        operation_id="mocks_state_patch",
        request=schemas.PatchInput,
        responses=RecordDocument,
    )
    def patch(self, request: Request) -> Response:
        given = self.body(schemas.PatchInput)
        name = self.writable(space_of(given))
        patch = inspection.StatePatch(
            key=given["key"],
            set=given.get("set", {}),
            delete=given.get("delete", []),
            version=given.get("version"),
            surface_id=given.get("surfaceId", ""),
        )
        return Response(record_document(inspection.patch_state(name, patch)))

    @extend_schema(
        operation_id="mocks_state_reset",
        parameters=[*schemas.SPACE, *schemas.KEY, *schemas.SURFACE],
        request=None,
        responses={200: schemas.RemovedNumber},
    )
    def delete(self, request: Request) -> Response:
        name = self.writable(named_space(request))
        query = request.query_params
        removed = inspection.remove_state(
            name, surface_id=query.get("surfaceId", ""), key=query.get("key", "")
        )
        answer: schemas.RemovedNumber = {"removed": removed}
        return Response(answer)


class JournalView(MockView):
    query_parameters: ClassVar[Any] = {
        "GET": PAGING | SPACE | {"surfaceId", "operationId", "outcome", "tag"},
        "DELETE": SPACE | {"surfaceId", "operationId", "tag"},
    }

    @extend_schema(
        operation_id="mocks_journal",
        parameters=[
            *schemas.SPACE,
            *schemas.OPERATION,
            *schemas.OUTCOME,
            *schemas.TAG,
            *schemas.PAGE,
        ],
        responses=schemas.JournalPage,
    )
    def get(self, request: Request) -> Response:
        name = self.readable(request)
        query = request.query_params
        wanted = CallFilter(
            surface_id=query.get("surfaceId", ""),
            operation_id=query.get("operationId", ""),
            outcome=choice_parameter(request, "outcome", schemas.OUTCOMES),
            tag=check_tag(query.get("tag", "")),
        )
        found = inspection.read_journal(name, wanted)
        page = paginate(request, found, key=lambda call: (call.time, call.id), descending=True)
        calls = [call_document(each) for each in page.items]
        return Response(page.as_dict("entries", calls))

    @extend_schema(
        operation_id="mocks_journal_clear",
        parameters=[*schemas.SPACE, *schemas.OPERATION, *schemas.TAG],
        request=None,
        responses={200: schemas.RemovedNumber},
    )
    def delete(self, request: Request) -> Response:
        name = self.writable(named_space(request))
        query = request.query_params
        removed = inspection.clear_journal(
            name,
            surface_id=query.get("surfaceId", ""),
            operation_id=query.get("operationId", ""),
            tag=check_tag(query.get("tag", "")),
        )
        answer: schemas.RemovedNumber = {"removed": removed}
        return Response(answer)


def named_space(request: Request) -> SpaceName:
    """Return the space that the query names; raise InvalidParameter."""
    if not request.query_params.get("suiteId"):
        raise InvalidParameter("suiteId is required")
    name, pointer, problem = _space(request.query_params)
    if problem:
        raise InvalidParameter(f"{pointer}: {problem}")
    return name


def space_of(body: Mapping[str, Any]) -> SpaceName:
    """Return the space that a body names; raise InvalidInput."""
    name, pointer, problem = _space(body)
    if problem:
        fault = FieldError(pointer=f"/{pointer}", code="invalid_value", detail=problem)
        raise InvalidInput(f"{pointer}: {problem}", errors=[fault])
    return name


def _space(given: Mapping[str, Any]) -> tuple[SpaceName, str, str]:
    """Return the space, and the key at fault with what is wrong."""
    run, path = given.get("executionId", ""), given.get("import", "")
    if path and not run:
        return SpaceName(""), "import", "it is a path in a run and needs executionId"
    name = SpaceName(given["suiteId"], run, path)
    read = SpaceName.parse(str(name))
    if read == name:
        return name, "", ""
    if read is None or read.suite_id != name.suite_id:
        return name, "suiteId", "not the id of a suite"
    return name, "import" if read.execution_id == run else "executionId", "not a valid id"
