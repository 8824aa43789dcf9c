"""`/api/v1/mocks`: why a call is answered as it is, whether it came, state and calls of spaces.

(reference: control-plane 18.1)
"""

from __future__ import annotations

from typing import Any, ClassVar, TypeVar

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.rest import PrincipalMixin
from apps.http.rest import PAGING, StrictAPIView, paginate
from apps.mocks.access import require_reader, require_writer
from apps.mocks.rest import schemas
from apps.mocks.services import inspection
from kernel.errors import InvalidInput
from mocks.engine.documents import (
    Explanation,
    RecordDocument,
    call_document,
    counter_document,
    record_document,
)
from mocks.inspection.questions import (
    ExplainInput,
    JournalQuery,
    JournalReset,
    ParameterInvalid,
    PatchInput,
    SpaceInput,
    StateQuery,
    StateReset,
    VerifyInput,
    read_body,
    read_query,
    space_name,
)
from mocks.inspection.verification import Verification, read_question
from mocks.model.spaces import SpaceName

Asked = TypeVar("Asked", bound=SpaceInput)


class MockView(PrincipalMixin, StrictAPIView):
    def question_of(self, request: Request, kind: type[Asked]) -> tuple[Asked, SpaceName]:
        """Return what the query asks of a space that the caller may look into, or may change."""
        asked = read_query(kind, request.query_params.dict())
        try:
            name = space_name(asked)
        except InvalidInput as error:
            raise ParameterInvalid(error.detail) from None
        require = require_writer if request.method == "DELETE" else require_reader
        require(self.principal, name)
        return asked, name


class ExplainView(MockView):
    @extend_schema(operation_id="mocks_explain", request=ExplainInput, responses=Explanation)
    def post(self, request: Request) -> Response:
        call = read_body(ExplainInput, request.data)
        name = space_name(call)
        defaults_only = name.is_shared and not self.principal.is_admin
        if not name.is_shared:
            require_reader(self.principal, name)
        return Response(inspection.explain_call(name, call, defaults_only=defaults_only))


class VerifyView(MockView):
    @extend_schema(operation_id="mocks_verify", request=VerifyInput, responses=Verification)
    def post(self, request: Request) -> Response:
        asked = read_question(request.data)
        name = space_name(asked.given)
        require_reader(self.principal, name)
        return Response(inspection.verify_calls(name, asked))


class StateView(MockView):
    query_parameters: ClassVar[Any] = {
        "GET": PAGING | set(StateQuery.__struct_encode_fields__),
        "DELETE": StateReset.__struct_encode_fields__,
    }

    @extend_schema(
        operation_id="mocks_state",
        parameters=[*schemas.parameters_of(StateQuery), *schemas.PAGE],
        responses=schemas.StatePage,
    )
    def get(self, request: Request) -> Response:
        asked, name = self.question_of(request, StateQuery)
        state = inspection.read_state(name, key=asked.key)
        page = paginate(request, state.records, key=lambda record: (record.key,))
        counters = [counter_document(each) for each in state.counters]
        records = [record_document(each) for each in page.items]
        return Response(page.as_dict("records", records, counters=counters))

    @extend_schema(operation_id="mocks_state_patch", request=PatchInput, responses=RecordDocument)
    def patch(self, request: Request) -> Response:
        patch = read_body(PatchInput, request.data)
        name = space_name(patch)
        require_writer(self.principal, name)
        return Response(record_document(inspection.patch_state(name, patch)))

    @extend_schema(
        operation_id="mocks_state_reset",
        parameters=schemas.parameters_of(StateReset),
        request=None,
        responses={200: schemas.RemovedNumber},
    )
    def delete(self, request: Request) -> Response:
        asked, name = self.question_of(request, StateReset)
        removed = inspection.remove_state(name, surface_id=asked.surface_id, key=asked.key)
        answer: schemas.RemovedNumber = {"removed": removed}
        return Response(answer)


class JournalView(MockView):
    query_parameters: ClassVar[Any] = {
        "GET": PAGING | set(JournalQuery.__struct_encode_fields__),
        "DELETE": JournalReset.__struct_encode_fields__,
    }

    @extend_schema(
        operation_id="mocks_journal",
        parameters=[*schemas.parameters_of(JournalQuery), *schemas.PAGE],
        responses=schemas.JournalPage,
    )
    def get(self, request: Request) -> Response:
        asked, name = self.question_of(request, JournalQuery)
        found = inspection.read_journal(name, asked.filter)
        page = paginate(request, found, key=lambda call: (call.time, call.id), descending=True)
        calls = [call_document(each) for each in page.items]
        return Response(page.as_dict("entries", calls))

    @extend_schema(
        operation_id="mocks_journal_clear",
        parameters=schemas.parameters_of(JournalReset),
        request=None,
        responses={200: schemas.RemovedNumber},
    )
    def delete(self, request: Request) -> Response:
        asked, name = self.question_of(request, JournalReset)
        removed = inspection.clear_journal(
            name, surface_id=asked.surface_id, operation_id=asked.operation_id, tag=asked.tag
        )
        answer: schemas.RemovedNumber = {"removed": removed}
        return Response(answer)
