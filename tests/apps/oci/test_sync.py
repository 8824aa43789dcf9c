"""Synchronizations against a registry whose answers are written here."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from typing import Any

import pytest

from apps.catalog.domain.packages import merge_packages
from apps.oci import api
from apps.oci.domain.repositories import RegistryFailure, SyncInProgress
from apps.oci.models import IndexedRepository, RegistryState, StoredPackage
from apps.oci.services import packages, registry_session, scan, sync
from apps.oci.services.registry_session import RegistrySession
from apps.oci.services.sync import sync_due
from apps.operations.api import generation
from apps.platform_settings.api import get_registry
from apps.platform_settings.selectors import registry_states
from kernel import clock
from tests.apps.oci.conftest import entry
from tests.support.scripted_registry import LAYER as LAYER_TYPE
from tests.support.scripted_registry import (
    OCI_MANIFEST,
    Reply,
    ScriptedRegistry,
    archive,
    encoded,
    scripted,
)

pytestmark = pytest.mark.django_db
LAYER = archive(("suite.star", b"# a suite\n"))
IMAGE_LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"


def listed(registry: ScriptedRegistry, *paths: str) -> None:
    registry.routes["/v2/_catalog"] = Reply(200, json.dumps({"repositories": paths}).encode())


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch):
    async def pause(_seconds: float) -> None:
        await asyncio.sleep(0)

    options = dict(RegistrySession.__init__.__kwdefaults__ or {})
    monkeypatch.setattr(RegistrySession.__init__, "__kwdefaults__", {**options, "pause": pause})


def test_a_repository_that_fails_is_an_error_and_the_others_are_there(registry: ScriptedRegistry):
    listed(registry, "core/shop", "core/empty", "core/broken", "Not A Name")
    registry.serve(LAYER)
    registry.routes["/v2/core/empty/tags/list"] = Reply(200, b'{"tags": null}')
    registry.routes["/v2/core/broken/tags/list"] = Reply(500)

    result = api.sync_registry("R")

    assert result.packages == 1
    assert {(error.repository, error.code) for error in result.errors} == {
        ("Not A Name", "name_invalid"),
        (f"{registry.host}/core/empty", "no_tags"),
        (f"{registry.host}/core/broken", "invalid_response"),
    }
    assert api.registry_warnings() == ()


def test_a_repository_that_fails_later_keeps_what_it_had(registry: ScriptedRegistry):
    listed(registry, "core/shop")
    digest = registry.serve(LAYER)
    api.sync_registry("R")
    registry.routes["/v2/core/shop/tags/list"] = Reply(500)

    api.sync_registry("R")

    (found,) = api.list_repositories()
    assert (found.digest, found.pulled, found.error_code) == (digest, True, "invalid_response")


@pytest.mark.parametrize("gone", [Reply(404), Reply(200, b'{"tags": []}')])
def test_a_repository_without_tags_leaves_the_index(registry: ScriptedRegistry, gone: Reply):
    listed(registry, "core/shop")
    digest = registry.serve(LAYER)
    api.sync_registry("R")
    registry.routes["/v2/core/shop/tags/list"] = gone

    api.sync_registry("R")

    assert api.list_repositories() == ()
    assert api.stored_package(digest) is not None  # locks may name it


def test_a_repository_that_is_not_listed_leaves_the_index(registry: ScriptedRegistry):
    listed(registry, "core/shop", "core/other")
    registry.serve(LAYER)
    registry.serve(LAYER, "core/other")
    api.sync_registry("R")
    listed(registry, "core/other")

    api.sync_registry("R")

    assert [found.path for found in api.list_repositories()] == ["core/other"]


def test_an_unchanged_synchronization_writes_nothing(registry: ScriptedRegistry):
    listed(registry, "core/shop")
    registry.serve(LAYER)
    api.sync_registry("R")
    registry.asked.clear()
    before, rows = generation("catalog"), list(IndexedRepository.objects.values_list("pk"))

    api.sync_registry("R")

    assert [(method, path) for method, path, _headers in registry.asked] == [
        ("GET", "/v2/_catalog?n=200"),
        ("GET", "/v2/core/shop/tags/list"),
        ("HEAD", "/v2/core/shop/manifests/1.0"),
    ]
    assert generation("catalog") == before
    assert list(IndexedRepository.objects.values_list("pk")) == rows


@pytest.mark.slow
def test_in_the_background_the_digest_of_a_version_is_asked_for_in_one_of_twelve_turns(
    registry: ScriptedRegistry, monkeypatch
):
    listed(registry, "core/shop")
    registry.serve(LAYER)
    api.sync_registry("R")
    moved = registry.serve(archive(("suite.star", b"# moved\n")))
    asked = []
    for turn in range(12):
        monkeypatch.setattr(time, "time", lambda turn=turn: turn * 300.0)
        RegistryState.objects.update(due_at=clock.now())
        registry.asked.clear()
        assert sync_due() == 1
        asked.append(any(method == "HEAD" for method, _path, _headers in registry.asked))

    assert asked.count(True) == 1
    assert api.list_repositories()[0].digest == moved


def test_a_new_tag_is_found_in_the_background_at_once(registry: ScriptedRegistry):
    listed(registry, "core/shop")
    registry.serve(LAYER)
    api.sync_registry("R")
    newer = registry.serve(archive(("suite.star", b"# newer\n")), tag="2.0")
    registry.routes["/v2/core/shop/tags/list"] = Reply(200, b'{"tags": ["1.0", "2.0"]}')
    RegistryState.objects.update(due_at=clock.now())

    assert sync_due() == 1

    assert api.list_repositories()[0].digest == newer


def test_a_container_image_is_listed_and_not_pulled(registry: ScriptedRegistry):
    listed(registry, "core/image")
    manifest = json.loads(
        encoded({"mediaType": IMAGE_LAYER, "digest": "sha256:" + "0" * 64, "size": 9})
    )
    manifest["config"]["mediaType"] = "application/vnd.oci.image.config.v1+json"
    del manifest["artifactType"]
    registry.serve(LAYER, "core/image", manifest=json.dumps(manifest).encode())

    result = api.sync_registry("R")

    (found,) = api.list_repositories()
    assert (found.pulled, found.artifact_type, found.media_types) == (False, "", (IMAGE_LAYER,))
    assert (result.errors, StoredPackage.objects.count()) == ((), 0)


DESCRIPTOR = {"mediaType": LAYER_TYPE, "digest": "sha256:" + "0" * 64, "size": 9}


@pytest.mark.parametrize(
    ("layers", "code"),
    [
        ([DESCRIPTOR, DESCRIPTOR], "layer_count"),
        ([DESCRIPTOR | {"mediaType": "text/plain"}], "layer_media_type"),
        ([DESCRIPTOR | {"size": 2**25 + 1}], "layer_too_large"),
        ([DESCRIPTOR | {"size": 0}], "size_invalid"),
    ],
)
def test_a_broken_package_says_why_at_each_synchronization(
    registry: ScriptedRegistry, layers: list[dict[str, Any]], code: str
):
    listed(registry, "core/shop")
    registry.serve(LAYER, manifest={"layers": layers})

    for _ in range(2):
        assert [error.code for error in api.sync_registry("R").errors] == [code]

    (found,) = api.list_repositories()
    assert (found.pulled, found.error_code) == (False, code)
    (package,) = merge_packages([found], {"R": "Zot"}, [], [])
    assert package["package"]["error"] == found.error_detail != ""


def test_an_artifact_of_another_kind_is_no_error_of_the_registry(registry: ScriptedRegistry):
    listed(registry, "core/signature")
    signature = {"artifactType": "text/x", "layers": [DESCRIPTOR | {"mediaType": "text/plain"}]}
    registry.serve(LAYER, "core/signature", manifest=signature)

    assert [api.sync_registry("R").errors for _ in range(2)] == [(), ()]
    assert api.list_repositories()[0].error_code == "layer_media_type"


def test_a_refused_package_is_not_fetched_again_until_it_changes(registry: ScriptedRegistry):
    listed(registry, "core/shop")
    registry.serve(archive(("../evil", b"x")))
    first = api.sync_registry("R")
    registry.asked.clear()

    second = api.sync_registry("R")

    assert [error.code for error in first.errors] == [error.code for error in second.errors]
    assert [error.code for error in second.errors] == ["path_traversal"]
    assert not any("/blobs/" in path for _method, path, _headers in registry.asked)
    digest = registry.serve(LAYER)
    assert api.sync_registry("R").errors == ()
    assert api.list_repositories()[0].digest == digest


def test_busy_answers_are_asked_again_twice(registry: ScriptedRegistry):
    listed(registry, "core/shop")
    registry.serve(LAYER)
    answers = [
        Reply(503),
        Reply(429, headers={"Retry-After": "1"}),
        Reply(200, b'{"tags": ["1.0"]}'),
    ]
    registry.routes["/v2/core/shop/tags/list"] = lambda _handler: answers.pop(0)

    assert api.sync_registry("R").errors == ()


@pytest.mark.parametrize(("status", "code"), [(429, "rate_limited"), (503, "unavailable")])
def test_answers_that_stay_busy_are_errors(registry: ScriptedRegistry, status: int, code: str):
    registry.routes["/v2/_catalog"] = Reply(status)

    result = api.sync_registry("R")

    assert [error.code for error in result.errors] == [code]
    assert len(registry.asked) == 3


@pytest.mark.timed
def test_a_synchronization_ends_in_time_and_keeps_what_it_found(
    registry: ScriptedRegistry, monkeypatch
):
    monkeypatch.setattr(scan.Scan.__init__, "__kwdefaults__", {"turn": None, "within_s": 1.0})
    listed(registry, "core/shop", *(f"slow/r{number}" for number in range(9)))
    registry.serve(LAYER)
    for number in range(9):
        tags = b'{"tags": ["1"]}'
        registry.routes[f"/v2/slow/r{number}/tags/list"] = Reply(200, tags, drip_s=0.4)
    began = time.monotonic()

    result = api.sync_registry("R")

    assert time.monotonic() - began < 4
    assert [(error.repository, error.code) for error in result.errors] == [("", "timeout")]
    assert [found.path for found in api.list_repositories()] == ["core/shop"]
    assert [warning.code for warning in api.registry_warnings()] == ["timeout"]


def test_repositories_that_ask_for_a_password_all_at_once_get_it(
    registry: ScriptedRegistry, configured
):
    configured(entry(registry.url, username="ann", secret="a-secret-of-ann"))
    paths = [f"core/shop-{number}" for number in range(8)]
    listed(registry, *paths)
    together = threading.Barrier(8, timeout=30)

    def tags(handler: Any) -> Reply:
        if handler.headers.get("Authorization"):
            return Reply(200, b'{"tags": ["1.0"]}')
        together.wait()
        return Reply(401, headers={"WWW-Authenticate": 'Basic realm="x"'})

    for path in paths:
        registry.serve(LAYER, path)
        registry.routes[f"/v2/{path}/tags/list"] = tags

    assert api.sync_registry("R").errors == ()


def test_who_lost_the_lease_writes_nothing_more(registry: ScriptedRegistry, monkeypatch):
    """A process that stood still for long finds that another one went on."""
    listed(registry, "core/shop")
    registry.serve(LAYER)
    store = packages.store_packages

    def stored_late(pulled: list[Any]) -> None:
        store(pulled)
        RegistryState.objects.update(holder="another")

    monkeypatch.setattr(sync, "store_packages", stored_late)

    with pytest.raises(SyncInProgress):
        api.sync_registry("R")

    assert not IndexedRepository.objects.exists()
    assert RegistryState.objects.get().holder == "another"
    assert registry_states(["R"]) == {}


def test_a_round_leaves_to_the_next_what_it_has_no_time_for(
    registry: ScriptedRegistry, configured, monkeypatch
):
    """Invariant 37: mails and sweeps wait in the same queue."""
    configured(entry(registry.url, "A"), entry(registry.url, "B"), entry(registry.url, "C"))
    listed(registry)
    monkeypatch.setattr(sync, "SYNC_S", 0.0)

    assert [sync_due() for _ in range(4)] == [1, 1, 1, 0]


@pytest.mark.slow
def test_at_most_sixteen_requests_are_in_flight(registry: ScriptedRegistry):
    paths = [f"core/r{number}" for number in range(40)]
    listed(registry, *paths)
    changing = threading.Lock()
    at_once, most = 0, 0

    def tags(_handler: Any) -> Reply:
        nonlocal at_once, most
        with changing:
            at_once += 1
            most = max(most, at_once)
        time.sleep(0.1)
        with changing:
            at_once -= 1
        return Reply(404)

    for path in paths:
        registry.routes[f"/v2/{path}/tags/list"] = tags

    api.sync_registry("R")

    assert 2 <= most <= 16


def test_a_suite_id_is_assigned_once():
    assert api.assign_suite_id("r.example/core/shop", "shop") == "shop"
    assert api.assign_suite_id("r.example/core/shop", "another") == "shop"


def test_an_upload_needs_no_signed_in_request_elsewhere(registry: ScriptedRegistry):
    """Credentials are sent to the registry and to nobody that it names."""
    chosen = get_registry("R")

    async def send(url: str) -> None:
        async with RegistrySession(chosen) as talk:
            talk._sign_in._authorization = "Bearer secret"
            await talk.send("PUT", url, limit=10)

    with scripted() as other:
        other.routes["/upload"] = Reply(201)
        asyncio.run(send(f"{other.url}/upload"))

    assert "Authorization" not in other.asked[-1][2]


def test_the_authorities_are_those_of_the_file(registry: ScriptedRegistry, settings, tmp_path):
    settings.REGISTRY_CA_FILE = str(tmp_path / "missing.pem")

    assert api.test_connection("R").code == "ca_file_unreadable"
    with pytest.raises(RegistryFailure):
        RegistrySession(get_registry("R"))


@pytest.mark.parametrize(
    ("header", "attempt", "low", "high"),
    [
        ("", 0, 0.1, 0.4),
        ("3", 0, 3, 3),
        ("86400", 0, 10, 10),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 0, 0.1, 0.4),
        ("nonsense", 1, 0.2, 0.8),
        ("\xb2", 0, 0.1, 0.4),  # a digit that is not a number
    ],
)
def test_pauses_honor_what_is_asked_for_within_limits(
    header: str, attempt: int, low: float, high: float
):
    assert low <= registry_session._pause_s(header, attempt) <= high


def test_manifests_of_docker_are_packages_too(registry: ScriptedRegistry):
    docker = "application/vnd.docker.distribution.manifest.v2+json"
    registry.serve(LAYER, manifest={"mediaType": docker, "artifactType": None}, media_type=docker)

    assert api.pull(f"{registry.host}/core/shop:1.0").files == {"suite.star": b"# a suite\n"}
    assert OCI_MANIFEST in registry.asked[0][2]["Accept"]
