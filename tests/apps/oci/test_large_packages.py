"""A package of the largest size holds up nobody: no transaction, no event loop, little memory."""

from __future__ import annotations

import asyncio
import json
import time

import pytest
from django.db import connection, connections

from apps.oci import api
from apps.oci.models import LayerPart
from apps.oci.services.registry_client import RegistryClient
from apps.oci.services.registry_session import RegistrySession
from tests.support.scripted_registry import Reply, ScriptedRegistry

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]
LARGE = {f"data/f{number}.txt": f"{number:04}\n".encode() * (2**21 // 5) for number in range(31)}


@pytest.fixture
def large(registry: ScriptedRegistry) -> str:
    from readers.archive import pack

    registry.serve(pack({"suite.star": b"# large\n", **LARGE}))
    catalog = json.dumps({"repositories": ["core/shop"]}).encode()
    registry.routes["/v2/_catalog"] = Reply(200, catalog)
    return f"{registry.host}/core/shop:1.0"


@pytest.mark.timed
async def test_the_event_loop_of_a_server_goes_on_meanwhile(large: str):
    gaps: list[float] = []

    async def tick() -> None:
        before = time.monotonic()
        while True:
            await asyncio.sleep(0.005)
            gaps.append(time.monotonic() - before)
            before = time.monotonic()

    ticking = asyncio.create_task(tick())
    package = await asyncio.to_thread(_pulled, large)
    ticking.cancel()

    assert len(package.files) == 32
    assert sum(len(content) for content in package.files.values()) > 60 * 2**20
    assert max(gaps) < 1.0, sorted(gaps)[-5:]


def _pulled(reference: str) -> api.Package:
    try:
        return api.pull(reference)
    finally:
        connections.close_all()


def test_no_transaction_is_open_while_the_network_is_used(large: str, monkeypatch):
    seen: list[bool] = []
    send = RegistrySession.send

    async def watched(self: RegistrySession, *arguments: object, **options: object) -> object:
        seen.append(connection.in_atomic_block)
        return await send(self, *arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(RegistrySession, "send", watched)

    api.pull(large)
    api.sync_registry("R")
    with pytest.raises(api.RegistryUnreachable):
        api.push(large, {"suite.star": b"# a suite\n"}, force=True)

    assert len(seen) > 4
    assert not any(seen)


def test_parts_of_a_layer_fit_into_a_document_of_mongodb(registry, monkeypatch):
    from apps.oci.services import packages

    monkeypatch.setattr(packages, "PART_BYTES", 100)
    digest = registry.serve(_noise())

    package = api.pull(f"{registry.host}/core/shop:1.0")

    assert LayerPart.objects.filter(digest=digest).count() > 5
    assert api.stored_package(digest).files == package.files  # type: ignore[union-attr]
    assert packages.PART_BYTES < 16 * 2**20


def _noise() -> bytes:
    from readers.archive import pack

    return pack({"suite.star": " ".join(str(n * n * 7919 % 10007) for n in range(900)).encode()})


def test_what_is_stored_is_not_fetched_by_a_synchronization(large: str, registry, monkeypatch):
    """Content that was pulled before the index knew of it."""
    api.pull(large)

    def refuse(*_arguments: object) -> None:
        raise AssertionError("a layer was fetched again")

    monkeypatch.setattr(RegistryClient, "layer", refuse)

    assert api.sync_registry("R").errors == ()
    assert api.list_repositories()[0].pulled
