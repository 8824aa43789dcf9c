from __future__ import annotations

from django.urls import path

from apps.suites.rest.views import SuiteDetail, SuiteList

app_name = "suites"
urlpatterns = [
    path("suites", SuiteList.as_view(), name="list"),
    path("suites/<str:suite_id>", SuiteDetail.as_view(), name="detail"),
]
