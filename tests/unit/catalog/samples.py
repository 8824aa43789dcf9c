"""Repositories and suites as the rules of the catalog take them."""

from __future__ import annotations

from typing import Any

from apps.catalog.domain.packages import AdvertisedRepository, BuiltInModule, KnownSuite
from apps.oci.domain.versions import chosen_tag

HOST = "registry.example.com"


def repository(path: str, *tags: str, **more: Any) -> AdvertisedRepository:
    facts: dict[str, Any] = {
        "registry_id": "main",
        "provider": "Zot",
        "host": HOST,
        "path": path,
        "tags": tags or ("1.0",),
        "version": chosen_tag(tags or ("1.0",)),
    }
    return AdvertisedRepository(**(facts | more))


def suite(suite_id: str, **more: Any) -> KnownSuite:
    facts: dict[str, Any] = {
        "suite_id": suite_id,
        "title": suite_id.title(),
        "repository": f"workspace/{suite_id}",
        "owner": "Core",
        "provider": "Workspace",
        "version": "workspace",
        "description": f"What {suite_id} checks",
        "modules": ("postgres",),
        "score": 80,
        "launchable": True,
    }
    return KnownSuite(**(facts | more))


def module(name: str) -> BuiltInModule:
    return BuiltInModule(name=name, description="A server and its tasks", version="0.1.0")
