"""Two real registries, one of which goes away and comes back: what the catalog says meanwhile."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rest_framework.test import APIClient

from apps.accounts.services.sign_up import sign_up
from apps.oci import api as oci
from tests.apps.catalog.conftest import PASSWORD, client_of
from tests.support import registries, servers
from tests.support.packages import program
from tests.support.registries import RunningRegistry

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.slow,
    pytest.mark.skipif(program("docker-registry") is None, reason="docker-registry is missing"),
]
PACKAGES = "/api/v1/catalog/packages"


def suite(title: str) -> dict[str, bytes]:
    return {
        "suite.star": b'load("@partita/postgres", "pg")\npg()\n',
        "README.md": f"# {title}\nIs in a registry\n".encode(),
    }


@pytest.fixture
def client(settings: Any, tmp_path: Path) -> APIClient:
    settings.SUITES_DIR = tmp_path / "suites"
    settings.SUITES_DIR.mkdir()
    return client_of(sign_up(full_name="Ada", email="ada@example.org", password=PASSWORD))


@pytest.fixture
def outage() -> Iterator[contextlib.ExitStack]:
    """Closing it takes the second registry away."""
    with contextlib.ExitStack() as stack:
        yield stack


@pytest.fixture
def pair(
    settings: Any, tmp_path: Path, outage: contextlib.ExitStack
) -> Iterator[tuple[RunningRegistry, RunningRegistry]]:
    with registries.plain(tmp_path / "up") as up:
        port = servers.free_port()
        other = outage.enter_context(registries.plain(tmp_path / "other", port=port))
        settings.PLATFORM_SETTINGS_FILE = tmp_path / "configuration.yaml"
        entries = [up.entry("up"), other.entry("other")]
        settings.PLATFORM_SETTINGS_FILE.write_text(json.dumps({"registries": entries}))
        oci.push(f"{up.host}/core/shop:1.0", suite("Shop"))
        oci.push(f"{other.host}/core/pay:2.0", suite("Pay"))
        oci.sync_registry("up")
        oci.sync_registry("other")
        yield up, other


def titles(answer: Any) -> list[str]:
    return [each["title"] for each in answer["packages"] if each["kind"] == "suite"]


def test_one_registry_that_is_down_hides_nothing(
    client: APIClient,
    pair: tuple[RunningRegistry, RunningRegistry],
    outage: contextlib.ExitStack,
    tmp_path: Path,
):
    """Invariant 37: its last good content is shown, with a warning, until it is back."""
    up, other = pair
    whole = client.get(PACKAGES).json()
    assert titles(whole) == ["Pay", "Shop"]
    assert {each["status"] for each in whole["packages"] if each["kind"] == "suite"} == {"Verified"}
    assert whole["warnings"] == []

    outage.close()
    oci.push(f"{up.host}/core/news:1.0", suite("News"))
    for registry_id in ("up", "other"):
        oci.sync_registry(registry_id)

    partial = client.get(PACKAGES).json()
    assert titles(partial) == ["News", "Pay", "Shop"]
    (warning,) = partial["warnings"]
    assert warning["registryId"] == "other"
    assert warning["code"]
    assert warning["detail"]
    pay = next(each for each in partial["packages"] if each["title"] == "Pay")
    assert client.get(f"/api/v1/suites/{pay['suiteId']}").json()["launchable"]

    with registries.plain(tmp_path / "other", port=int(other.host.rpartition(":")[2])):
        oci.sync_registry("other")
        back = client.get(PACKAGES).json()

    assert titles(back) == ["News", "Pay", "Shop"]
    assert back["warnings"] == []
