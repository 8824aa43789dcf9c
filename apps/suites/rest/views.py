"""REST of suites (reference: control-plane 9)."""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from django.http import HttpResponse
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.api import Principal
from apps.http.api import is_not_modified, strong_etag
from apps.http.rest import (
    PAGING,
    StrictViewSet,
    choice_parameter,
    integer_parameter,
    paginate,
)
from apps.suites import api
from apps.suites.domain.definition import DefinitionDocument, summary_of, without_contents
from apps.suites.rest import schemas
from apps.suites.services import registration

_ENCODINGS_KEPT: Final = 1024
_SHOWN: Final[Mapping[str, Callable[[DefinitionDocument], Mapping[str, Any]]]] = {
    "detail": lambda definition: definition,
    "full": without_contents,
    "summary": summary_of,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Encoded:
    definition: DefinitionDocument  # held, so that its identity is not given to another one
    body: bytes
    etag: str


class EncodedDefinitions:
    """The JSON of Definitions by view, encoded once for as long as they are the same.

    The library returns the same object until the suite changes, which is how an entry is known to
    hold. It is thread-safe.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[str, str], _Encoded] = OrderedDict()

    def encode(self, view: str, definition: DefinitionDocument) -> _Encoded:
        """Encode a Definition in a view, unless it is kept already."""
        key = view, definition["id"]
        with self._lock:
            known = self._kept.get(key)
            if known is not None and known.definition is definition:
                self._kept.move_to_end(key)
                return known
        shown = _SHOWN[view](definition)
        made = _Encoded(
            definition=definition,
            body=_json(shown),
            etag=strong_etag(shown) if view == "detail" else "",
        )
        with self._lock:
            self._kept[key] = made
            while len(self._kept) > _ENCODINGS_KEPT:
                self._kept.popitem(last=False)
        return made


_definitions: Final = EncodedDefinitions()


def definition_response(request: Request, definition: DefinitionDocument) -> HttpResponse:
    """Return a Definition with its ETag; 304 without a body when `If-None-Match` names it."""
    encoded = _definitions.encode("detail", definition)
    headers = {"ETag": encoded.etag}
    known = request.headers.get("If-None-Match", "")
    if known and is_not_modified(encoded.etag, known):
        return HttpResponse(status=304, headers=headers)
    return HttpResponse(encoded.body, content_type="application/json", headers=headers)


def list_response(
    definitions: Sequence[DefinitionDocument], view: str, rest: Mapping[str, Any]
) -> HttpResponse:
    """Return `suites` in the view `full` or `summary`, and the other keys of a page."""
    bodies = b",".join(_definitions.encode(view, each).body for each in definitions)
    tail = _json(rest)[1:]
    return HttpResponse(
        b'{"suites":[' + bodies + b"]" + (b"," if rest else b"") + tail,
        content_type="application/json",
    )


def _json(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode(errors="replace")


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
