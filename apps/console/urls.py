from __future__ import annotations

from django.urls import path

from apps.console.views.home import home
from apps.console.views.later import later, later_for_anyone
from apps.console.views.runs import run, run_panels
from apps.console.views.sign_in import sign_in, sign_out, sign_up
from apps.console.views.suites import suite, suite_list

app_name = "console"
SETTINGS_SECTIONS = ("general", "agents", "registries", "secrets")

urlpatterns = [
    path("", home, name="home"),
    path("sign-in", sign_in, name="sign-in"),
    path("sign-up", sign_up, name="sign-up"),
    path("sign-out", sign_out, name="sign-out"),
    path("suites", suite_list, name="suites"),
    path("suites/<str:suite_id>", suite, name="suite"),
    path("executions/<str:run_id>", run, name="run"),
    path("executions/<str:run_id>/panels", run_panels, name="run-panels"),
    path("catalog", later),
    path("profiles", later),
    path("environments", later),
    *(path(f"settings/{section}", later) for section in SETTINGS_SECTIONS),
    path("forgot-password", later_for_anyone),
    path("reset-password", later_for_anyone),
    path("auth/callback", later_for_anyone),
]
