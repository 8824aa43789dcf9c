"""Suites that can be launched, and the backends for them."""

from __future__ import annotations

from typing import TypedDict

from apps.agents import api as agents
from apps.agents.api import is_available
from apps.platform_settings.api import backends
from apps.suites.api import list_suites


class BackendOptionBody(TypedDict):
    id: str
    label: str
    kind: str
    description: str
    default: bool
    available: bool


class ProfileOptionBody(TypedDict):
    fileName: str
    label: str
    description: str
    default: bool


class LaunchSuiteBody(TypedDict):
    """A suite that can be launched, as on the wire."""

    id: str
    title: str
    repository: str
    description: str
    provider: str
    status: str
    profiles: list[ProfileOptionBody]
    backends: list[BackendOptionBody]


def launch_suites() -> list[LaunchSuiteBody]:
    """Return every launchable suite by title, with its profiles and the enabled backends.

    The backends are in the order of the settings.
    """
    online = agents.online_agents()
    options: list[BackendOptionBody] = [
        {
            "id": backend.backend_id,
            "label": backend.label,
            "kind": backend.kind,
            "description": backend.description,
            "default": backend.default,
            "available": is_available(backend, online),
        }
        for backend in backends()
        if backend.enabled
    ]
    suites = [suite for suite in list_suites() if suite["launchable"]]
    return [
        {
            "id": suite["id"],
            "title": suite["title"],
            "repository": suite["repository"],
            "description": suite["description"],
            "provider": suite["provider"],
            "status": suite["status"],
            "profiles": [
                {
                    "fileName": profile["fileName"],
                    "label": profile["label"],
                    "description": profile["description"],
                    "default": profile["default"],
                }
                for profile in suite["profiles"]
            ],
            "backends": options,
        }
        for suite in sorted(suites, key=lambda suite: (suite["title"], suite["id"]))
    ]
