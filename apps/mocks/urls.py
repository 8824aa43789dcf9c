from __future__ import annotations

from django.urls import path

from apps.mocks.rest.views import ExplainView, JournalView, StateView

app_name = "mocks"
urlpatterns = [
    path("mocks/explain", ExplainView.as_view(), name="explain"),
    path("mocks/state", StateView.as_view(), name="state"),
    path("mocks/journal", JournalView.as_view(), name="journal"),
]
