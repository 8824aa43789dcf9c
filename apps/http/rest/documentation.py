"""The API's description, OpenAPI 3.1, and a page to browse it (reference: control-plane 1)."""

from __future__ import annotations

from typing import Any, ClassVar

from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.utils import extend_schema
from drf_spectacular.views import SpectacularAPIView, SpectacularSwaggerSplitView
from rest_framework.renderers import JSONRenderer, TemplateHTMLRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from apps.http.middleware.security_headers import CONTENT_SECURITY_POLICY
from apps.http.rest.strict import StrictAPIView


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
        """Either of the two."""
        return [{name: []} for name in self.name]

    def get_security_definition(self, auto_schema: AutoSchema) -> list[dict[str, Any]]:
        return [
            {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"},
            {"type": "apiKey", "in": "cookie", "name": "partita_session"},
        ]
