"""Bodies and parameters of requests to the suite routes; answers come from `domain.definition`."""

from __future__ import annotations

from typing import Any, Final

from drf_spectacular.utils import OpenApiParameter
from rest_framework import serializers

from apps.http.rest import StrictSerializer, page_of
from apps.suites.domain.definition import DefinitionDocument
from kernel.wire_types import Count

Text = serializers.CharField
SuitePage: Final = page_of("SuitePage", suites=list[DefinitionDocument], total=Count)


class RegisterSuiteInput(StrictSerializer):
    """A suite as text. `files` are further files by their path in the package."""

    id = Text(max_length=128)
    title = Text(required=False, allow_blank=True, max_length=300)
    description = Text(required=False, allow_blank=True, max_length=2000)
    owner = Text(required=False, allow_blank=True, max_length=300)
    suiteStar = Text(trim_whitespace=False)
    files = serializers.DictField(
        child=Text(allow_blank=True, trim_whitespace=False), required=False
    )


def query(name: str, description: str, **more: Any) -> OpenApiParameter:
    return OpenApiParameter(name, str, OpenApiParameter.QUERY, description=description, **more)


LIST_PARAMETERS: Final = [
    query("q", "occurs in id, title, repository or description"),
    query("tag", "one of the suite's tags"),
    query("view", "summary leaves out source and topology", enum=["full", "summary"]),
    OpenApiParameter("limit", int, OpenApiParameter.QUERY, description="1 to 200, default 50"),
    query("cursor", "`nextCursor` of the page before"),
]
MOST_WAIT_S: Final = 10
DETAIL_PARAMETERS: Final = [
    query("profile", "resolve with this profile's environment"),
    OpenApiParameter(
        "wait",
        int,
        OpenApiParameter.QUERY,
        description=f"seconds, 0 to {MOST_WAIT_S}, to wait for an evaluation that is under way",
    ),
]
