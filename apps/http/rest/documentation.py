"""The API's description, OpenAPI 3.1, and a page to browse it (reference: control-plane 1).

drf-spectacular asks here whose docstrings it shows, and how problems look.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Final

from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.plumbing import get_lib_doc_excludes
from drf_spectacular.utils import extend_schema
from drf_spectacular.views import SpectacularAPIView, SpectacularSwaggerSplitView
from rest_framework.renderers import JSONRenderer, TemplateHTMLRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.serializers import BaseSerializer
from rest_framework.views import APIView

from apps.http.middleware.headers import CONTENT_SECURITY_POLICY
from apps.http.rest.documents import Schema
from apps.http.rest.strict import StrictAPIView
from kernel.problems import PROBLEMS

_TEXT: Final = {"type": "string"}
_WHOLE: Final = {"type": "integer"}
_FAULT: Final = {
    "type": "object",
    "required": ["code", "detail"],
    "properties": {
        "pointer": _TEXT,
        "code": _TEXT,
        "detail": _TEXT,
        "file": _TEXT,
        "line": _WHOLE,
        "column": _WHOLE,
    },
}
_PROBLEM: Final = {
    "type": "object",
    "description": "RFC 9457; `error` equals `detail`.",
    "required": ["type", "title", "status", "detail", "instance", "code", "requestId", "error"],
    "properties": {
        "type": _TEXT,
        "title": _TEXT,
        "status": _WHOLE,
        "detail": _TEXT,
        "instance": _TEXT,
        "code": {"type": "string", "enum": sorted(PROBLEMS)},
        "requestId": _TEXT,
        "error": _TEXT,
        "errors": {"type": "array", "items": _FAULT},
    },
}
_ANSWER: Final = {
    "description": "a problem",
    "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}},
}


@extend_schema(exclude=True)
class SchemaView(StrictAPIView, SpectacularAPIView):
    renderer_classes: Any = [JSONRenderer]


@extend_schema(exclude=True)
class DocsView(StrictAPIView, SpectacularSwaggerSplitView):
    """Swagger UI from our own files; its start-up script is the same path with `?script=`."""

    query_parameters: ClassVar[frozenset[str]] = frozenset({"script"})
    renderer_classes: Any = [TemplateHTMLRenderer]
    url_name = "http:schema"
    template_name = "http/docs.html"  # theirs, in the colours of our pages

    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Swagger UI styles its parts inline; scripts still come from our files only."""
        response: Response = super().get(request, *args, **kwargs)  # type: ignore[no-untyped-call]
        response["Content-Security-Policy"] = CONTENT_SECURITY_POLICY.replace(
            "style-src 'self'", "style-src 'self' 'unsafe-inline'"
        )
        return response


class SessionScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """How the description names the two credentials (reference: control-plane 3)."""

    target_class = "apps.accounts.rest.SessionAuthentication"
    name = ["bearer", "session"]

    def get_security_requirement(self, auto_schema: AutoSchema) -> list[dict[str, list[Any]]]:
        """Return the schemes as alternatives: a request needs only one of them."""
        return [{name: []} for name in self.name]

    def get_security_definition(self, auto_schema: AutoSchema) -> list[Schema]:
        return [
            {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"},
            {"type": "apiKey", "in": "cookie", "name": "partita_session"},
        ]


def with_problems(result: Schema, **_context: Any) -> Schema:
    """Hook of drf-spectacular: `default` is what an operation answers beside its successes."""
    result.setdefault("components", {}).setdefault("schemas", {})["Problem"] = _PROBLEM
    for operations in result["paths"].values():
        for operation in operations.values():
            operation["responses"].setdefault("default", _ANSWER)
    return result


def classes_without_words() -> list[type]:
    """For drf-spectacular: the library's classes, and every class of ours that others derive from.

    What those say is for programmers. Looked up each time: classes come with the routes.
    """
    ours = (*_descendants(APIView), *_descendants(BaseSerializer))
    theirs: list[type] = get_lib_doc_excludes()  # type: ignore[no-untyped-call]
    return theirs + [each for each in ours if each.__subclasses__()]


def _descendants(kind: type) -> Iterator[type]:
    for child in kind.__subclasses__():
        yield child
        yield from _descendants(child)
