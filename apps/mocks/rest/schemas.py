"""Answers of the mock routes as pages, and the parameters of their queries."""

from __future__ import annotations

from typing import Final, TypedDict, get_args

import msgspec
from drf_spectacular.utils import OpenApiParameter

from apps.http.rest import page_of
from kernel.wire_types import Count
from mocks.engine.documents import CallDocument, CounterDocument, RecordDocument
from mocks.model.calls import CallOutcome

StatePage: Final = page_of(
    "StatePage", records=list[RecordDocument], counters=list[CounterDocument]
)
JournalPage: Final = page_of("JournalPage", entries=list[CallDocument])


class RemovedNumber(TypedDict):
    removed: Count


PAGE: Final = [
    OpenApiParameter("limit", int, OpenApiParameter.QUERY, description="1 to 200, default 50"),
    OpenApiParameter(
        "cursor", str, OpenApiParameter.QUERY, description="`nextCursor` of the page before"
    ),
]


def parameters_of(query: type[msgspec.Struct]) -> list[OpenApiParameter]:
    """Return the parameters that a query has."""
    return [_parameter(each) for each in msgspec.structs.fields(query)]


def _parameter(member: msgspec.structs.FieldInfo) -> OpenApiParameter:
    text = next(each for each in member.type.__metadata__ if isinstance(each, str))
    outcomes = [str(each) for each in CallOutcome]
    return OpenApiParameter(
        member.encode_name,
        str,
        OpenApiParameter.QUERY,
        description=text,
        required=member.required,
        enum=outcomes if CallOutcome in get_args(member.type.__origin__) else None,
    )
