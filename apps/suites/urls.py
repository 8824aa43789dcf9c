from __future__ import annotations

from django.urls import path
from rest_framework.routers import SimpleRouter

from apps.suites.rest.profiles import SuiteProfilesViewSet
from apps.suites.rest.views import SuiteViewSet

_router = SimpleRouter(trailing_slash=False, use_regex_path=False)
_router.register("suites", SuiteViewSet, "suites")

app_name = "suites"
_PROFILES = "profiles/suites"
urlpatterns = [
    *_router.urls,
    path(_PROFILES, SuiteProfilesViewSet.as_view({"get": "list"}), name="profiles"),
    path(
        f"{_PROFILES}/<str:suite_id>",
        SuiteProfilesViewSet.as_view({"get": "retrieve", "post": "create_in"}),
        name="suite-profiles",
    ),
    path(
        f"{_PROFILES}/<str:suite_id>/<str:profile_id>",
        SuiteProfilesViewSet.as_view({"put": "replace", "delete": "remove"}),
        name="profile",
    ),
    path(
        f"{_PROFILES}/<str:suite_id>/<str:profile_id>/default",
        SuiteProfilesViewSet.as_view({"post": "make_default"}),
        name="default-profile",
    ),
]
