"""Suites that can be launched, and the backends for them."""

from __future__ import annotations

from typing import Final, TypedDict

from apps.agents import api as agents
from apps.platform_settings.api import backends
from apps.suites.api import find_suite, list_suites

_SCHEME: Final = "oci://"


class BackendOptionBody(TypedDict):
    id: str
    label: str
    kind: str
    description: str
    default: bool
    available: bool
    waitsFor: str


class ProfileOptionBody(TypedDict):
    fileName: str
    label: str
    description: str
    default: bool


class ReferencedSuiteBody(TypedDict):
    """The suite that a reference names; the default profile is the first."""

    id: str
    title: str
    repository: str
    version: str
    profiles: list[ProfileOptionBody]


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


def referenced_suite(reference: str) -> ReferencedSuiteBody:
    """Return the suite that an id or a repository, with a tag or digest, names.

    Its profiles are the launchable ones, the default first. A package that is not stored yet is
    pulled. Raise SuiteNotFound, and PlatformError (registry_unreachable, package_invalid).
    """
    suite = find_suite(reference.removeprefix(_SCHEME))
    metadata = suite.metadata
    return {
        "id": suite.suite_id,
        "title": metadata.title,
        "repository": metadata.repository,
        "version": metadata.version,
        "profiles": [
            {
                "fileName": profile.file_name,
                "label": profile.label,
                "description": profile.description,
                "default": profile.default,
            }
            for profile in suite.profiles
            if profile.launchable
        ],
    }


def launch_suites() -> list[LaunchSuiteBody]:
    """Return every launchable suite by title, with its profiles and the enabled backends.

    The backends are in the order of the settings; `waitsFor` says why one is not available.
    """
    reason_to_wait = agents.reasons_to_wait()
    options: list[BackendOptionBody] = [
        {
            "id": backend.backend_id,
            "label": backend.label,
            "kind": backend.kind,
            "description": backend.description,
            "default": backend.default,
            "available": not waits_for,
            "waitsFor": waits_for,
        }
        for backend in backends()
        if backend.enabled
        for waits_for in [reason_to_wait(backend)]
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
