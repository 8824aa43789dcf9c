"""REST of suites (reference: control-plane 9)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from django.http import HttpResponse
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.api import Principal
from apps.http.rest import (
    PAGING,
    StrictViewSet,
    choice_parameter,
    integer_parameter,
    paginate,
)
from apps.suites import api
from apps.suites.domain.definition import DefinitionDocument
from apps.suites.rest import schemas
from apps.suites.rest.encoding import definition_response, list_response
from apps.suites.services import registration


class SuiteViewSet(StrictViewSet):
    lookup_url_kwarg = "suite_id"
    query_parameters: ClassVar[Any] = {
        "list": PAGING | {"q", "tag", "view"},
        "retrieve": {"profile", "wait"},
    }

    @extend_schema(
        operation_id="suites_list",
        parameters=schemas.LIST_PARAMETERS,
        responses=schemas.SuitePage,
    )
    def list(self, request: Request) -> HttpResponse:
        view = choice_parameter(request, "view", ("summary", "full"), default="full")
        found = [
            definition
            for definition in api.list_suites()
            if _matches(definition, request.query_params)
        ]
        page = paginate(request, found, key=lambda suite: (suite["title"].casefold(), suite["id"]))
        rest = page.as_dict("suites", (), total=len(found))
        rest.pop("suites")
        return list_response(page.items, view, rest)

    @extend_schema(
        operation_id="suites_register",
        request=schemas.RegisterSuiteInput,
        responses={201: DefinitionDocument},
    )
    def create(self, request: Request) -> Response:
        registration.require_registration(_caller(request))
        given = self.body(schemas.RegisterSuiteInput)
        text = registration.SuiteText(
            suite_id=given["id"],
            suite_star=given["suiteStar"],
            title=given.get("title", ""),
            description=given.get("description", ""),
            owner=given.get("owner", ""),
            files=given.get("files", {}),
        )
        definition = registration.register_suite(_caller(request), text)
        location = f"{request.path}/{definition['id']}"
        return Response(definition, status=201, headers={"Location": location})

    @extend_schema(
        operation_id="suites_detail",
        parameters=schemas.DETAIL_PARAMETERS,
        responses={200: DefinitionDocument, 304: None},
    )
    def retrieve(self, request: Request, suite_id: str) -> HttpResponse:
        profile = request.query_params.get("profile", "")
        waits = "wait" in request.query_params
        most = schemas.MOST_WAIT_S
        seconds = integer_parameter(request, "wait", default=0, low=0, high=most)
        definition = api.get_definition(
            suite_id, profile=profile, wait_s=seconds if waits else None
        )
        return definition_response(request, definition)

    @extend_schema(operation_id="suites_remove", responses={204: None})
    def destroy(self, request: Request, suite_id: str) -> Response:
        registration.remove_suite(_caller(request), suite_id)
        return Response(status=204)


def _matches(definition: DefinitionDocument, query: Mapping[str, str]) -> bool:
    """Return whether the suite has `tag`, and `q` occurs in its id, title or other texts."""
    if (tag := query.get("tag")) and tag not in definition["tags"]:
        return False
    wanted = query.get("q", "").casefold()
    names = (definition["id"], definition["title"], definition["repository"])
    return any(wanted in text.casefold() for text in (*names, definition["description"]))


def _caller(request: Request) -> Principal:
    caller = request.user
    assert isinstance(caller, Principal), "only the signed-in get here"
    return caller
