"""A new resource is what docs/guides/adding-an-api-resource.md shows, dropped into a package."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from django.urls import clear_url_caches
from rest_framework.test import APIClient

import apps.agents
from platform_site import urls as site_urls
from tests.support import guides
from tests.support.api_clients import signed_in_client

GUIDE = "adding-an-api-resource.md"
APP = "apps/agents"


@pytest.fixture
def resource(
    tmp_path: Path, settings, db: None, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """The guide's files as part of the app, and the routes of the site made anew."""
    before = set(sys.modules)
    for name in ("urls.py", "rest/views.py"):
        file = tmp_path / APP / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(guides.file_of(GUIDE, f"{APP}/{name}"))
    (tmp_path / APP / "rest" / "__init__.py").touch()
    package = apps.agents
    monkeypatch.setattr(package, "__path__", [*package.__path__, str(tmp_path / APP)])
    settings.PLATFORM_SETTINGS_FILE = tmp_path / "configuration.yaml"
    settings.PLATFORM_SETTINGS_FILE.write_text(
        "agents:\n- {agentId: edge, name: Edge, type: remote-agent}\n"
        "- {agentId: own, name: Own, type: local}\n"
    )
    site = ModuleType("site_with_resource")
    site.urlpatterns = site_urls.routes()  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, site.__name__, site)
    settings.ROOT_URLCONF = site.__name__
    yield
    clear_url_caches()
    for name in set(sys.modules) - before:
        if name.startswith(("apps.agents.rest", "apps.agents.urls")):
            del sys.modules[name]


@pytest.fixture
def client() -> APIClient:
    return signed_in_client()


def test_the_list_has_pages(resource, client):
    first = client.get("/api/v1/backends?limit=1").json()
    second = client.get("/api/v1/backends", {"limit": 1, "cursor": first["nextCursor"]}).json()

    assert first["backends"] == [{"id": "edge", "name": "Edge", "kind": "remote-agent"}]
    assert ([each["id"] for each in second["backends"]], second["total"]) == (["own"], 2)


def test_one_of_them_is_answered_under_its_etag(resource, client):
    answer = client.get("/api/v1/backends/edge")
    again = client.get("/api/v1/backends/edge", headers={"If-None-Match": answer["ETag"]})

    assert (answer.status_code, answer.json()["name"]) == (200, "Edge")
    assert again.status_code == 304


def test_what_is_wrong_is_a_problem_document(resource, client):
    unknown = client.get("/api/v1/backends/none")
    parameter = client.get("/api/v1/backends?colour=red")

    assert (unknown.status_code, unknown.json()["code"]) == (404, "not_found")
    assert (parameter.status_code, parameter.json()["code"]) == (400, "unknown_parameter")


def test_nobody_sees_it_without_a_session(resource):
    assert APIClient().get("/api/v1/backends").status_code == 401
