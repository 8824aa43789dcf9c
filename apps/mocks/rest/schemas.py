"""OpenAPI schemas of the mock routes, whose documents come from `domain.documents`."""

from __future__ import annotations

from typing import Any, Final

from drf_spectacular.utils import OpenApiParameter, extend_schema_serializer
from rest_framework import serializers

from apps.http.rest import StrictSerializer
from apps.mocks.domain.calls import CallOutcome

Text = serializers.CharField
Number = serializers.IntegerField
Flag = serializers.BooleanField
OUTCOMES: Final = [str(outcome) for outcome in CallOutcome]
_ID: Final = 128
_KEY: Final = 1_024


class Shape(serializers.Serializer[Any]):
    """The shape of an answer."""


def texts(*, required: bool = True, **more: Any) -> serializers.DictField:
    child = Text(allow_blank=True, trim_whitespace=False)
    return serializers.DictField(child=child, required=required, **more)


class SpaceInput(StrictSerializer):
    """The shared space of a suite; with `executionId`, that of a run.

    `import` is the path of the import of the suite in the run.
    """

    suiteId = Text(max_length=_ID)
    executionId = Text(required=False, allow_blank=True, max_length=64)

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        path = Text(required=False, allow_blank=True, max_length=512)
        return {**super().get_fields(), "import": path}


class ExplainInput(SpaceInput):
    """A call: `operationId`, or `method` and `path` below the surface.

    A `body` that is no string is sent as JSON.
    """

    surfaceId = Text(max_length=_ID)
    operationId = Text(required=False, allow_blank=True, max_length=1_024)
    method = Text(required=False, allow_blank=True, max_length=32)
    path = Text(required=False, allow_blank=True, trim_whitespace=False, max_length=8_192)
    headers = texts(required=False)
    query = texts(required=False)
    body = serializers.JSONField(required=False)


class ExplainedConstraint(Shape):
    name = Text()
    source = Text()  # type: ignore[assignment]
    value = Text(required=False, allow_blank=True)
    ok = Flag()
    detail = Text(required=False)


class ExplainedCondition(Shape):
    param = Text(allow_blank=True)
    expected = Text(allow_blank=True)
    actual = Text(required=False, allow_blank=True)
    ok = Flag()

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        sources = ["path", "query", "header", "body", "state"]
        return {"from": serializers.ChoiceField(choices=sources), **super().get_fields()}


class Candidate(Shape):
    """An example in the order in which it is tried."""

    name = Text()
    order = Number(min_value=0)
    conditions = ExplainedCondition(many=True)
    matched = Flag()


class SchemaError(Shape):
    pointer = Text(allow_blank=True)
    code = Text()
    detail = Text()


class ExplainedTransition(Shape):
    """What becomes of a record: its `fields`, or it is removed."""

    key = Text()
    onExample = Text(required=False)
    fields = texts(required=False)  # type: ignore[assignment]
    removed = Flag(required=False)


class ExplainedResponse(Shape):
    status = Number(min_value=0)
    mediaType = Text(allow_blank=True)
    headers = serializers.DictField(child=serializers.ListField(child=Text(allow_blank=True)))
    body = Text(allow_blank=True)
    delayMillis = Number(min_value=0)
    grpcStatus = Number(required=False)


class ExplainedError(Shape):
    """Why Partita itself answers; `nearest` is what an unmatched call came nearest to."""

    code = Text()
    detail = Text(allow_blank=True)
    nearest = serializers.DictField(required=False)

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        errors = serializers.ListField(child=serializers.DictField(), required=False)
        return {**super().get_fields(), "errors": errors}


class Explanation(Shape):
    """What would answer a call, and why. One of `response`, `error` and `proxyUrl` is there."""

    operationId = Text()
    constraints = ExplainedConstraint(many=True)
    candidates = Candidate(many=True)
    dispatcher = Text()
    chosen = Text(required=False)
    schemaErrors = SchemaError(many=True)
    fallback = Text(required=False)
    stateKey = Text(required=False)
    state = texts(required=False)
    transition = ExplainedTransition(required=False)
    response = ExplainedResponse(required=False)
    error = ExplainedError(required=False)
    proxyUrl = Text(required=False)


class StateRecord(Shape):
    key = Text()
    surfaceId = Text()
    fields = texts()  # type: ignore[assignment]
    version = Number(min_value=1)
    updatedAt = serializers.DateTimeField()


class Counter(Shape):
    """How often an operation of dispatcher `sequence` or `random` has drawn since the reset."""

    surfaceId = Text()
    operationId = Text()
    value = Number(min_value=0)


@extend_schema_serializer(many=False)
class SpaceState(Shape):
    records = StateRecord(many=True)
    counters = Counter(many=True)
    nextCursor = Text(required=False)


class PatchInput(SpaceInput):
    """Fields to set and to delete, at once.

    `version` is what must be stored, 0 for no record. `surfaceId` is needed for a new record.
    """

    key = Text(max_length=_KEY, trim_whitespace=False)
    set = texts(required=False)
    delete = serializers.ListField(child=Text(trim_whitespace=False), required=False)
    version = Number(required=False, min_value=0, max_value=2**53)
    surfaceId = Text(required=False, allow_blank=True, max_length=_ID)


class Call(Shape):
    id = Text()
    time = serializers.DateTimeField()
    method = Text()
    path = Text()
    surfaceId = Text()
    operationId = Text(required=False)
    matchedExample = Text(required=False)
    outcome = serializers.ChoiceField(choices=OUTCOMES)
    status = Number(min_value=0)
    durationMs = Number(min_value=0)
    requestHeaders = texts()
    requestBody = Text(required=False)
    stateKey = Text(required=False)
    stepId = Text(required=False)
    nearest = serializers.DictField(
        required=False, help_text="of an unmatched call: what came nearest and what differs"
    )


@extend_schema_serializer(many=False)
class CallList(Shape):
    entries = Call(many=True)
    nextCursor = Text(required=False)


class RemovedNumber(Shape):
    removed = Number(min_value=0)


def query(name: str, description: str, **more: Any) -> OpenApiParameter:
    return OpenApiParameter(name, str, OpenApiParameter.QUERY, description=description, **more)


SPACE: Final = [
    query("suiteId", "the suite that serves the surfaces", required=True),
    query("executionId", "a run; without it, the shared space"),
    query("import", "the path of the import of the suite in the run"),
]
PAGE: Final = [
    OpenApiParameter("limit", int, OpenApiParameter.QUERY, description="1 to 200, default 50"),
    query("cursor", "`nextCursor` of the page before"),
]
KEY: Final = [query("key", "only the record of this key")]
SURFACE: Final = [query("surfaceId", "only of this API surface")]
OPERATION: Final = [*SURFACE, query("operationId", "only of this operation")]
OUTCOME: Final = [query("outcome", "only calls that ended so", enum=OUTCOMES)]
