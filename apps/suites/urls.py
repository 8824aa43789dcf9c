from __future__ import annotations

from rest_framework.routers import SimpleRouter

from apps.suites.rest.views import SuiteViewSet

_router = SimpleRouter(trailing_slash=False, use_regex_path=False)
_router.register("suites", SuiteViewSet, "suites")

app_name = "suites"
urlpatterns = _router.urls
