from __future__ import annotations

from django.urls import path

from apps.console import account, run_list, team, views

app_name = "console"
SETTINGS_SECTIONS = ("general", "agents", "registries", "secrets")

urlpatterns = [
    path("", run_list.home, name="home"),
    path("sign-in", views.sign_in, name="sign-in"),
    path("sign-up", views.sign_up, name="sign-up"),
    path("sign-out", views.sign_out, name="sign-out"),
    path("account", account.account, name="account"),
    path("account/password", account.change_password, name="change-password"),
    path("account/tokens", account.create_token, name="create-token"),
    path("account/tokens/revoke", account.revoke_token, name="revoke-token"),
    path("account/sign-out-everywhere", account.sign_out_everywhere, name="sign-out-everywhere"),
    path("account/sign-ins/end", account.end_one_sign_in, name="end-sign-in"),
    *(
        path(f"account/second-factor/{action}", account.change_second_factor, {"action": action})
        for action in account.SECOND_FACTOR_ACTIONS
    ),
    path("suites", views.suite_list, name="suites"),
    path("suites/<str:suite_id>", views.suite, name="suite"),
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
    path("executions/<str:run_id>", views.run, name="run"),
    path("executions/<str:run_id>/panels", views.run_panels, name="run-panels"),
    path("team", team.team, name="team"),
    *(path(f"team/{action}", team.change, {"action": action}) for action in team.ACTIONS),
    path("invitation", team.invitation, name="invitation"),
    path("catalog", views.not_implemented),
    path("profiles", views.not_implemented),
    path("environments", views.not_implemented),
    *(path(f"settings/{section}", views.not_implemented) for section in SETTINGS_SECTIONS),
    path("forgot-password", views.forgot_password, name="forgot-password"),
    path("reset-password", views.reset_password, name="reset-password"),
    path("auth/callback", views.sign_in_callback, name="sign-in-callback"),
]
