from __future__ import annotations

from django.urls import path

from apps.suites.rest.views import SuiteDetailView, SuiteListView

app_name = "suites"
urlpatterns = [
    path("suites", SuiteListView.as_view(), name="list"),
    path("suites/<str:suite_id>", SuiteDetailView.as_view(), name="detail"),
]
