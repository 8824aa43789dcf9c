from __future__ import annotations

from django.urls import path

from apps.mocks.rest.views import ExplainView, JournalView, StateView, VerifyView

app_name = "mocks"
urlpatterns = [
    path("mocks/explain", ExplainView.as_view(), name="explain"),
    path("mocks/verify", VerifyView.as_view(), name="verify"),
    path("mocks/state", StateView.as_view(), name="state"),
    path("mocks/journal", JournalView.as_view(), name="journal"),
]
