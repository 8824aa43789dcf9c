"""What the API's description says of each operation and group, in the order that callers need."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

TAGS: Final = {
    "executions": "Launch runs, follow them, read logs, artifacts and reports, cancel",
    "suites": "Packaged test environments: their topology, contracts and files",
    "profiles": "How a suite runs: variables, secrets, what is recorded",
    "catalog": "What registries, the workspace and the built-in modules offer",
    "mocks": "Explain, journal and state of simulated APIs",
    "streams": "Several streams over one connection",
    "sandboxes": "Environments: what runs hold or left on container runtimes, and its removal",
    "engine": "The state of the installation's runs",
    "auth": "Sign in, tokens, single sign-on",
    "workspaces": "Workspaces, members and invitations",
    "invitations": "Read and accept an invitation",
    "platform-settings": "Backends, registries, secrets and mail, for administrators",
    "agents": "Registered runners and workers",
    "agent-control": "The protocol between workers and the control plane",
}
SUMMARIES: Final = {
    "agents_drain": "Keep new runs from an agent",
    "agents_heartbeat": "Report that an agent is alive",
    "agents_list": "List runners and workers",
    "agents_register": "Register a runner or worker",
    "agents_remove": "Remove an agent",
    "agents_resume": "Let an agent take new runs again",
    "api_tokens_create": "Create an API token",
    "api_tokens_list": "List your API tokens",
    "api_tokens_revoke": "Revoke an API token",
    "auth_ci": "Exchange the token of a CI job for a session",
    "auth_config": "Show how one can sign in",
    "auth_device": "Begin the sign-in of a program by a code",
    "auth_device_token": "Fetch the token of a sign-in by a code",
    "auth_forgot_password": "Ask for a link to reset a password",
    "auth_me": "Show the signed-in account",
    "auth_oidc_callback": "Finish a single sign-on",
    "auth_oidc_exchange": "Exchange a sign-in code for tokens",
    "auth_oidc_login": "Begin a single sign-on",
    "auth_refresh": "Renew an access token",
    "auth_reset_password": "Set a password with a reset link",
    "auth_sign_in": "Sign in",
    "auth_sign_out": "Sign out",
    "auth_sign_out_everywhere": "End all sessions and tokens of the account",
    "auth_sign_up": "Create an account",
    "executions_artifact_archive": "Download all artifacts of a run",
    "executions_artifact_image": "Show an image that a step exported",
    "executions_log_line_at": "Find the log line of an instant",
    "executions_resolve_ref": "Find the suite that a reference names",
    "auth_sso_providers": "List providers of single sign-on",
    "auth_stream_tickets": "Get a ticket for one stream",
    "catalog_favorites_add": "Star a package",
    "catalog_favorites_list": "List starred packages",
    "catalog_favorites_remove": "Remove the star of a package",
    "catalog_packages_detail": "Show a package",
    "catalog_packages_list": "Search packages",
    "claims_next": "Claim the next step",
    "engine_overview_retrieve": "Show the state of all runs",
    "engine_overview_stream": "Follow the state of all runs",
    "executions_artifact": "Download an artifact",
    "executions_cancel": "Cancel a run",
    "executions_delete": "Delete a finished run",
    "executions_detail": "Show a run",
    "executions_events": "Follow the events of a run",
    "executions_junit": "Download the test report of a run",
    "executions_keep": "Keep the environment of a run longer",
    "executions_keep_end": "End the kept environment of a run",
    "executions_launch": "Launch a run",
    "executions_list": "List runs, newest first",
    "executions_log_search": "Search the log of a run",
    "executions_logs": "Follow the log of a run",
    "executions_logs_download": "Download the log of a run",
    "executions_overview_retrieve": "Show the state of the workspace's runs",
    "executions_probes": "Follow what services wait for",
    "executions_repeat": "Run a step again in the kept environment",
    "executions_repeat_artifact": "Download an artifact of a step that ran again",
    "executions_repeat_cancel": "Cancel a step that runs again",
    "executions_repeat_detail": "Show a step that runs again, with its artifacts",
    "executions_repeat_logs": "Follow the log of a step that runs again",
    "executions_repeats": "List the steps that were run again, newest first",
    "executions_rerun": "Run a run again",
    "executions_since_green": "Compare a run with the last healthy one",
    "executions_timeline": "Show what each step did from when to when",
    "invitations_accept": "Accept an invitation",
    "invitations_preview": "Show what an invitation is for",
    "jobs_artifact": "Upload an artifact",
    "jobs_complete": "Report the end of a step",
    "jobs_content": "Download the files of a suite",
    "jobs_lease": "Renew the lease of a step",
    "jobs_logs": "Send log lines of a step",
    "jobs_state": "Report the state of a step",
    "launch_suites": "List suites with what a launch can choose",
    "mocks_explain": "Explain which example answers a call",
    "mocks_journal": "List the calls of a space",
    "mocks_journal_clear": "Forget the calls of a space",
    "mocks_state": "Show the state of a space",
    "mocks_state_patch": "Change the state of a space",
    "mocks_state_reset": "Reset the state of a space",
    "mocks_verify": "Say whether a space got the calls that a test expects",
    "platform_settings_get": "Show the settings",
    "platform_settings_preview": "Show what a replacement of the settings would change",
    "platform_settings_replace": "Replace the settings",
    "platform_settings_sync_registry": "Read what a registry offers now",
    "platform_settings_test_registry": "Test the connection to a registry",
    "profiles_create": "Create a profile",
    "profiles_delete": "Delete a profile",
    "profiles_make_default": "Make a profile the default of its suite",
    "profiles_of_suite": "List the profiles of a suite",
    "profiles_replace": "Replace a profile",
    "profiles_suites_list": "List suites with their profiles",
    "sandboxes_events": "Follow the environments",
    "sandboxes_list": "List environments",
    "sandboxes_reap": "Remove an environment",
    "sandboxes_reap_all": "Remove all environments, or only zombies",
    "shells_end": "End a shell",
    "shells_list": "List the shells of a run",
    "shells_open": "Open a shell in a step",
    "streams_shared": "Follow several streams over one connection",
    "suites_detail": "Show a suite",
    "suites_list": "List suites",
    "suites_register": "Register a suite",
    "suites_remove": "Remove a registered suite",
    "workspace_invitations_create": "Invite someone to a workspace",
    "workspace_invitations_list": "List open invitations",
    "workspace_invitations_revoke": "Withdraw an invitation",
    "workspace_members_change": "Change the role of a member",
    "workspace_members_list": "List members",
    "workspace_members_remove": "Remove a member, or leave",
    "workspaces_create": "Create a workspace",
    "workspaces_list": "List your workspaces",
    "workspaces_switch": "Choose the workspace to work in",
}


def add_words(result: Any, **_: object) -> Any:
    """Give operations their summaries and groups their order; a hook of drf-spectacular.

    `result` is the description as a document: nested mappings and lists.

    A description that several operations share is that of their class and says nothing true of
    any one of them: it goes.
    """
    shared = Counter(each.get("description") for each in operations(result))
    for operation in operations(result):
        if summary := SUMMARIES.get(operation["operationId"]):
            operation["summary"] = summary
        if shared[operation.get("description")] > 1:
            operation.pop("description", None)
    result["tags"] = [{"name": name, "description": text} for name, text in TAGS.items()]
    return result


def operations(result: Any) -> Iterator[Any]:
    """Yield every operation of a description."""
    for methods in result["paths"].values():
        yield from (each for each in methods.values() if "operationId" in each)
