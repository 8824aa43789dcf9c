"""Repositories and suites as the rules of the catalog take them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from apps.catalog.domain.packages import KnownSuite
from apps.oci.api import Repository
from apps.oci.domain.repositories import chosen_tag
from apps.suites.api import ModuleInfo

HOST = "registry.example.com"


def repository(path: str, *tags: str, **more: Any) -> Repository:
    facts: dict[str, Any] = {
        "registry_id": "main",
        "host": HOST,
        "path": path,
        "tags": tags or ("1.0",),
        "version": chosen_tag(tags or ("1.0",)),
        "digest": "",
        "artifact_type": "",
        "media_types": (),
        "pulled": False,
        "suite_id": "",
        "error_code": "",
        "error_detail": "",
        "seen_at": datetime(2026, 11, 24, 8, 0, tzinfo=UTC),
    }
    return Repository(**(facts | more))


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


def module(name: str) -> ModuleInfo:
    return ModuleInfo(
        name=name, title=name, description="A server and its tasks", load="", functions=()
    )
