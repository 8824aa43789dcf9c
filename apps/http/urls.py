"""The API's description, static files, and the routes that are still to come."""

from __future__ import annotations

from django.urls import path

from apps.http.rest.documentation import DocsView, SchemaView
from apps.http.rest.not_implemented import NOT_IMPLEMENTED, not_implemented_view
from apps.http.views import static_file

app_name = "http"
urlpatterns = [
    path("api/v1/schema", SchemaView.as_view(), name="schema"),
    path("api/v1/docs", DocsView.as_view(), name="docs"),
    path("static/<path:path>", static_file, name="static"),
    *(
        path(f"api/v1/{route}", not_implemented_view(methods))
        for route, methods in NOT_IMPLEMENTED.items()
    ),
]
