from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, cast

import pytest
from rest_framework.test import APIClient

from apps.accounts.api import Role
from apps.mocks import components
from apps.mocks.selectors import SharedSpaces
from mocks.model.spaces import SpaceName
from tests.apps.suites.conftest import (  # noqa: F401 - fixtures
    Workspace,
    library,
    workspace,
)
from tests.support.api_clients import PERSON
from tests.support.processes import ROOT
from tests.support.served_mocks import Contents, MemoryParts

SHOP = ROOT / "examples" / "oci-suites" / "shop"


@pytest.fixture(autouse=True)
def _store(db) -> None:
    """Suites come from the store, too."""


@pytest.fixture
def shop(workspace: Workspace) -> None:  # noqa: F811
    shutil.copytree(SHOP, workspace.root / "shop")


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch, shop: None) -> Iterator[MemoryParts]:
    content = SharedSpaces().load(SpaceName("shop"))
    assert content is not None
    made = MemoryParts(Contents(content))
    monkeypatch.setattr(components, "mock_parts", lambda: made)
    yield made
    made.spaces.stop()


def client_of(**facts: Any) -> APIClient:
    api_client = APIClient()
    api_client.force_authenticate(user=cast("Any", replace(PERSON, **facts)))
    return api_client


@pytest.fixture
def admin() -> APIClient:
    return client_of(is_admin=True)


@pytest.fixture
def member() -> APIClient:
    return client_of()


@pytest.fixture
def viewer() -> APIClient:
    return client_of(role=Role.VIEWER)
