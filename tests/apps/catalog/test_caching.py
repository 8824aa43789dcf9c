"""A kept catalog is never older than a write before the read, whatever Redis does.

The union of all packages is shared by its readers, favorites are each reader's own.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis
from rest_framework.test import APIClient

from apps.catalog import selectors
from apps.operations.api import CachedReads
from tests.apps.catalog.conftest import FakeIndex
from tests.support import servers
from tests.support.parts import need

pytestmark = pytest.mark.urls("tests.apps.catalog.urlconf")
PACKAGES = "/api/v1/catalog/packages"
FAVORITES = "/api/v1/catalog/favorites"
SUITE = 'task.run("t", image="busybox:1.36")\n'


@pytest.fixture(params=["no Redis", "Redis", "away", "silent", "losing data"])
def memory(request: pytest.FixtureRequest, settings: Any) -> Iterator[Callable[[], None]]:
    """How Redis is; calling it makes it lose everything, where it is to do so."""
    settings.REDIS_PREFIX = f"catalog-{os.getpid()}"
    with contextlib.ExitStack() as stack:
        if request.param == "silent":
            settings.REDIS_URL = f"redis://{stack.enter_context(servers.silent())}/0"
        elif request.param == "away":
            settings.REDIS_URL = f"redis://127.0.0.1:{servers.free_port()}/0"
        elif request.param != "no Redis":
            settings.REDIS_URL = f"redis://{need('TEST_REDIS_ADDR', 'Redis')}/0"
            stack.callback(forget, settings)

        def lose() -> None:
            if request.param == "losing data":
                forget(settings)

        yield lose


def forget(settings: Any) -> None:
    with redis.Redis.from_url(settings.REDIS_URL) as client:
        for key in client.scan_iter(f"{settings.REDIS_PREFIX}:*"):
            client.delete(key)


@pytest.fixture
def other_process(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """From the call on, reads are those of a process that remembers nothing itself."""

    def switch() -> None:
        monkeypatch.setattr(selectors, "_packages", CachedReads("catalog"))
        monkeypatch.setattr(selectors, "_favorites", CachedReads("favorites"))

    return switch


def titles(client: APIClient, query: str = "") -> list[str]:
    found = client.get(f"{PACKAGES}?kind=suite{query}").json()["packages"]
    return [package["title"] for package in found]


def test_each_write_is_seen_by_the_next_read(
    memory: Callable[[], None],
    other_process: Callable[[], None],
    client: APIClient,
    index: FakeIndex,
    workspace: Any,
):
    """Invariant 37: a Redis that is away, silent or forgets changes no answer."""
    index.registry("main")
    assert titles(client) == []

    index.offer("main", "core/shop", ["1.0"])
    assert titles(client) == ["Shop"]
    memory()
    workspace.add("mine", {"suite.star": SUITE, "metadata.yaml": "{title: Mine}"})
    assert titles(client) == ["Mine", "Shop"]
    workspace.add("mine", {"metadata.yaml": "{title: Renamed}"})
    assert titles(client) == ["Renamed", "Shop"]
    other_process()
    index.configured[0].provider = "Harbor"
    assert titles(client, "&provider=Harbor") == ["Shop"]
    client.post(f"{FAVORITES}/main-example-com-core-shop")
    assert titles(client, "&starred=true") == ["Shop"]
    memory()
    other_process()
    assert client.get(FAVORITES).json() == {"packageIds": ["main-example-com-core-shop"]}
    client.delete(f"{FAVORITES}/main-example-com-core-shop")
    assert titles(client, "&starred=true") == []
    index.configured.clear()
    assert titles(client) == ["Renamed"]


def test_the_index_is_read_once_for_all_readers(
    client: APIClient, index: FakeIndex, workspace: Any
):
    index.registry("main")
    index.offer("main", "core/shop", ["1.0"])

    for query in ("", "&q=shop", "&starred=true", "&limit=1"):
        titles(client, query)
    client.post(f"{FAVORITES}/main-example-com-core-shop")
    titles(client)

    assert index.reads == 1


@pytest.mark.redis
def test_processes_share_what_one_of_them_has_united(
    settings: Any,
    other_process: Callable[[], None],
    client: APIClient,
    index: FakeIndex,
    workspace: Any,
):
    settings.REDIS_URL = f"redis://{need('TEST_REDIS_ADDR', 'Redis')}/0"
    settings.REDIS_PREFIX = f"catalog-shared-{os.getpid()}"
    index.registry("main")
    index.offer("main", "core/shop", ["1.0"])

    first = titles(client)
    other_process()
    second = titles(client)

    assert first == second == ["Shop"]
    assert index.reads == 1
    forget(settings)
