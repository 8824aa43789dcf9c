"""The API's description, static files and the documentation site."""

from __future__ import annotations

from django.urls import path

from apps.http.rest.documentation import DocsView, SchemaView
from apps.http.views import documentation, static_file

app_name = "http"
urlpatterns = [
    path("api/v1/schema", SchemaView.as_view(), name="schema"),
    path("api/v1/docs", DocsView.as_view(), name="docs"),
    path("static/<path:path>", static_file, name="static"),
    path("docs", documentation, name="documentation-redirect"),
    path("docs/", documentation, name="documentation"),
    path("docs/<path:path>", documentation, name="documentation-page"),
]
