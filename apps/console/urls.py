from __future__ import annotations

from django.urls import path

from apps.console import (
    account,
    catalog,
    device,
    environments,
    mocks,
    profiles,
    run_list,
    settings,
    suite_list,
    team,
    views,
)
from apps.console.domain.settings_sections import SECTIONS

app_name = "console"

urlpatterns = [
    path("", run_list.home, name="home"),
    path("sign-in", views.sign_in, name="sign-in"),
    path("sign-up", views.sign_up, name="sign-up"),
    path("sign-out", views.sign_out, name="sign-out"),
    path("account", account.account, name="account"),
    path("account/sign-out-everywhere", account.sign_out_everywhere, name="sign-out-everywhere"),
    *(
        path(f"account/{at}", account.change, {"action": action}, name=action)
        for action, at in account.ACTIONS.items()
    ),
    path("device", device.device, name="device"),
    *(
        path(f"device/{decision}", device.decide, {"decision": decision}, name=f"device-{decision}")
        for decision in device.DECISIONS
    ),
    path("suites", suite_list.suite_list, name="suites"),
    path("suites/<str:suite_id>", views.suite, name="suite"),
    path("suites/<str:suite_id>/graph", views.suite_graph, name="suite-graph"),
    path("suites/<str:suite_id>/lock", views.suite_lock, name="suite-lock"),
    path(
        "suites/<str:suite_id>/surfaces/<str:surface_id>",
        views.suite_surface,
        name="suite-surface",
    ),
    path(
        "suites/<str:suite_id>/surfaces/<str:surface_id>/operations/<str:operation_id>",
        views.suite_operation,
        name="suite-operation",
    ),
    path(
        "suites/<str:suite_id>/surfaces/<str:surface_id>/operations/<str:operation_id>/explain",
        mocks.explain,
        name="explain-mock",
    ),
    path("suites/<str:suite_id>/mocks", mocks.shared_space, name="suite-mocks"),
    path("suites/<str:suite_id>/mocks/reset", mocks.reset_shared_space, name="reset-suite-mocks"),
    path("executions/<str:run_id>", views.run, name="run"),
    path("executions/<str:run_id>/graph", views.run_graph, name="run-graph"),
    path("executions/<str:run_id>/timeline", views.run_timeline, name="run-timeline"),
    path(
        "executions/<str:run_id>/artifacts/<str:artifact_id>/preview",
        views.artifact_preview,
        name="artifact-preview",
    ),
    path("executions/<str:run_id>/panels", views.run_panels, name="run-panels"),
    path("executions/<str:run_id>/mocks", mocks.run_spaces, name="run-mocks"),
    path("executions/<str:run_id>/mocks/reset", mocks.reset_run_space, name="reset-run-mocks"),
    path("team", team.team, name="team"),
    *(
        path(f"team/{action}", team.change, {"action": action}, name=f"team-{action}")
        for action in team.ACTIONS
    ),
    path("invitation", team.invitation, name="invitation"),
    path("catalog", catalog.catalog, name="catalog"),
    path("catalog/<str:package_id>", catalog.package, name="package"),
    path("catalog/<str:package_id>/star", catalog.star, name="star"),
    path("profiles", profiles.suites, name="profiles"),
    path("profiles/<str:suite_id>", profiles.suite, name="profiles-of-suite"),
    # "-" is the id of no profile
    path("profiles/<str:suite_id>/-/new", profiles.new, name="new-profile"),
    path("profiles/<str:suite_id>/-/create", profiles.save, name="create-profile"),
    path("profiles/<str:suite_id>/-/check", profiles.check, name="check-new-profile"),
    path("profiles/<str:suite_id>/<str:profile_id>", profiles.edit, name="profile"),
    *(
        path(f"profiles/<str:suite_id>/<str:profile_id>/{name}", view, name=f"profile-{name}")
        for name, view in profiles.PARTS.items()
    ),
    path("environments", environments.environment_list, name="environments"),
    path("environments/rows", environments.environment_rows, name="environment-rows"),
    path("environments/reap", environments.reap, name="reap-environment"),
    path("environments/reap-all", environments.reap_all, name="reap-environments"),
    path("settings", settings.index, name="settings"),
    path("settings/agents", settings.agents),
    path("settings/check", settings.check, name="settings-check"),
    path("settings/sync", settings.sync, name="settings-sync"),
    *(
        path(f"settings/{name}", settings.section, {"name": name}, name=f"settings-{name}")
        for name in SECTIONS
    ),
    path("forgot-password", views.forgot_password, name="forgot-password"),
    path("reset-password", views.reset_password, name="reset-password"),
    path("auth/callback", views.sign_in_callback, name="sign-in-callback"),
]
