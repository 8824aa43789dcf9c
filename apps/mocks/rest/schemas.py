"""Bodies and parameters of requests to the mock routes, and pages of `mocks.engine.documents`."""

from __future__ import annotations

from typing import Any, Final, TypedDict

from drf_spectacular.utils import OpenApiParameter
from rest_framework import serializers

from apps.http.rest import StrictSerializer, page_of
from kernel.wire_types import Count
from mocks.engine.documents import CallDocument, CounterDocument, RecordDocument
from mocks.model.calls import CallOutcome

Text = serializers.CharField
Number = serializers.IntegerField
OUTCOMES: Final = [str(outcome) for outcome in CallOutcome]
_ID: Final = 128
_KEY: Final = 1_024


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


class PatchInput(SpaceInput):
    """Fields to set and to delete, at once.

    `version` is what must be stored, 0 for no record. `surfaceId` is needed for a new record.
    """

    key = Text(max_length=_KEY, trim_whitespace=False)
    set = texts(required=False)
    delete = serializers.ListField(child=Text(trim_whitespace=False), required=False)
    version = Number(required=False, min_value=0, max_value=2**53)
    surfaceId = Text(required=False, allow_blank=True, max_length=_ID)


StatePage: Final = page_of(
    "StatePage", records=list[RecordDocument], counters=list[CounterDocument]
)
JournalPage: Final = page_of("JournalPage", entries=list[CallDocument])


class RemovedNumber(TypedDict):
    removed: Count


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
TAG: Final = [query("tag", "only calls with this X-Partita-Mock-Tag")]
OUTCOME: Final = [query("outcome", "only calls that ended so", enum=OUTCOMES)]
