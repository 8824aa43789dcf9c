"""A catalog over suites written as text and an index of registries given by the test."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from rest_framework.test import APIClient

from apps.accounts.models import User
from apps.accounts.services.sign_up import sign_up
from apps.accounts.services.token_pairs import issue_tokens
from apps.catalog import selectors
from apps.oci.api import Repository
from apps.oci.domain.repositories import chosen_tag, sorted_tags
from apps.operations.api import CachedReads, raise_generation
from apps.streams.api import unit_of_work
from tests.apps.suites.conftest import library, workspace

__all__ = ["library", "workspace"]
PASSWORD = "Correct-Horse-1"
SEEN = datetime(2026, 11, 24, 8, 0, tzinfo=UTC)


@dataclass
class FakeIndex:
    """`oci.api` and the registries of the settings, as far as the catalog reads them."""

    configured: list[Any] = field(default_factory=list)
    rows: list[Repository] = field(default_factory=list)
    failing: list[Any] = field(default_factory=list)
    reads: int = 0

    def registry(self, registry_id: str, provider: str = "Zot", name: str = "") -> None:
        facts = {"registry_id": registry_id, "provider": provider, "name": name}
        self.configured.append(SimpleNamespace(**facts))

    def offer(self, registry_id: str, path: str, tags: Iterable[str], **more: Any) -> None:
        """Put a repository into the index, as a sync does."""
        ordered = sorted_tags(tags)
        facts: dict[str, Any] = {
            "registry_id": registry_id,
            "host": f"{registry_id}.example.com",
            "path": path,
            "tags": ordered,
            "version": chosen_tag(ordered),
            "digest": "",
            "artifact_type": "",
            "media_types": (),
            "pulled": False,
            "suite_id": "",
            "error_code": "",
            "error_detail": "",
            "seen_at": SEEN,
        }
        self._write(Repository(**(facts | more)))

    def fail(self, registry_id: str, detail: str) -> None:
        self.failing.append(
            SimpleNamespace(registry_id=registry_id, code="registry_unreachable", detail=detail)
        )

    @unit_of_work
    def _write(self, row: Any) -> None:
        self.rows.append(row)
        raise_generation("catalog")

    def registries(self) -> tuple[Any, ...]:
        return tuple(self.configured)

    def list_repositories(self) -> tuple[Any, ...]:
        self.reads += 1
        order = [each.registry_id for each in self.configured]
        known = [row for row in self.rows if row.registry_id in order]
        return tuple(sorted(known, key=lambda row: order.index(row.registry_id)))

    def built_in_modules(self) -> list[Any]:
        function = SimpleNamespace(name="f", signature="f(name, **kw)", doc="Starts **one**.")
        return [
            SimpleNamespace(
                name=name,
                title=name.title(),
                description=f"A {name} server",
                load=f'load("@partita/{name}", "f")',
                functions=(function,),
            )
            for name in ("postgres", "redis")
        ]

    def registry_warnings(self) -> tuple[Any, ...]:
        return tuple(self.failing)


@pytest.fixture
def index(monkeypatch: pytest.MonkeyPatch) -> FakeIndex:
    """The caches are of this test, too."""
    fake = FakeIndex()
    monkeypatch.setattr(selectors, "oci", fake)
    monkeypatch.setattr(selectors, "platform_settings", fake)
    monkeypatch.setattr("apps.suites.api.built_in_modules", fake.built_in_modules)
    monkeypatch.setattr(selectors, "_packages", CachedReads("catalog"))
    monkeypatch.setattr(selectors, "_favorites", CachedReads("favorites"))
    return fake


@pytest.fixture
def ada(transactional_db: None) -> User:
    return sign_up(full_name="Ada", email="ada@example.org", password=PASSWORD)


def client_of(user: User) -> APIClient:
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {issue_tokens(user).token}")
    return client


@pytest.fixture
def client(ada: User) -> APIClient:
    return client_of(ada)
