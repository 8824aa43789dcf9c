"""Real registries (docker-registry of Debian): over TLS, with a password, with tokens."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from rest_framework.test import APIClient

from apps.oci import api
from apps.oci.domain.repositories import SyncInProgress
from apps.oci.models import RegistryState, StoredPackage
from apps.oci.services import sync
from apps.oci.services.sync import due_registries, sync_due
from apps.platform_settings.api import get_registry
from kernel import clock
from tests.support import registries
from tests.support.api_clients import PERSON
from tests.support.packages import program
from tests.support.registries import Certificate, RunningRegistry

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.slow,
    pytest.mark.skipif(program("docker-registry") is None, reason="docker-registry is missing"),
]
FILES = {
    "suite.star": b"# shop\n",
    "README.md": b"# Shop\n\nA shop.\n",
    "tasks/seed.sh": b"#!/bin/sh\necho seed\n",
}
KINDS = ("plain", "basic", "tokens", "basic over TLS", "tokens over TLS")


@pytest.fixture(scope="module")
def certificate(tmp_path_factory) -> Certificate:
    return registries.certificate(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def running(tmp_path_factory, certificate) -> Iterator[dict[str, RunningRegistry]]:
    """One registry of each kind."""
    folder = tmp_path_factory.mktemp("registries")
    with ExitStack() as stack:
        enter = stack.enter_context
        yield {
            "plain": enter(registries.plain(folder / "plain")),
            "basic": enter(registries.basic(folder / "basic")),
            "tokens": enter(registries.with_tokens(folder / "tokens")),
            "basic over TLS": enter(registries.basic(folder / "basic-tls", certificate)),
            "tokens over TLS": enter(registries.with_tokens(folder / "tokens-tls", certificate)),
        }


@pytest.fixture
def configured(settings, tmp_path, certificate) -> Callable[..., Path]:
    settings.REGISTRY_CA_FILE = str(certificate.authority)

    def configure(*entries: dict[str, Any]) -> Path:
        file: Path = tmp_path / "configuration.yaml"
        file.write_text(json.dumps({"registries": list(entries)}))
        settings.PLATFORM_SETTINGS_FILE = file
        return file

    return configure


@pytest.mark.parametrize("kind", KINDS)
def test_a_suite_is_pushed_listed_synchronized_and_pulled(running, configured, kind: str):
    registry: RunningRegistry = running[kind]
    configured(registry.entry("R", repositoryScope="core"))
    name = f"{registry.host}/core/shop"

    assert api.test_connection("R").reachable
    pushed = api.push(f"{name}:1.2.0", FILES, annotations={"org.example": "a"})
    again = api.push(f"{name}:1.2.0", FILES, annotations={"org.example": "a"})
    api.push(f"{name}:1.10.0-rc1", {**FILES, "README.md": b"# Next\n"})
    api.push(f"{name}:latest", FILES)

    assert (pushed.is_new, again) == (True, replace(pushed, is_new=False))
    result = api.sync_registry("R")
    assert (result.packages, result.errors) == (1, ())
    (found,) = api.list_repositories()
    assert (found.repository, found.tags) == (name, ("latest", "1.10.0-rc1", "1.2.0"))
    assert (found.version, found.pulled, found.artifact_type) == (
        "1.10.0-rc1",
        True,
        api.SUITE_TYPE,
    )
    package = api.pull(f"{name}:1.2.0")
    assert (package.digest, package.content_digest) == (pushed.digest, pushed.content_digest)
    assert package.files == FILES
    assert package.annotations == {"org.example": "a"}
    assert api.pull(f"{name}@{pushed.digest}") == api.Package(**{**_fields(package), "tag": ""})


def _fields(package: api.Package) -> dict[str, Any]:
    return {name: getattr(package, name) for name in package.__dataclass_fields__}


@pytest.mark.parametrize("kind", ["basic", "tokens", "tokens over TLS"])
def test_wrong_credentials_are_refused_without_telling_them(running, configured, kind: str):
    registry: RunningRegistry = running[kind]
    configured(registry.entry("R", secret="a-wrong-secret"))

    report = api.test_connection("R")
    result = api.sync_registry("R")

    assert (report.reachable, report.code) == (False, "unauthorized")
    assert [error.code for error in result.errors] == ["catalog_refused"]
    assert "a-wrong-secret" not in repr(report) + repr(result)


def test_an_unknown_authority_is_refused(running, configured, settings):
    registry: RunningRegistry = running["basic over TLS"]
    configured(registry.entry("R"))
    settings.REGISTRY_CA_FILE = ""

    assert api.test_connection("R").code == "tls_failed"


def test_without_a_catalog_the_exact_names_of_the_scope_are_used(tmp_path, configured, certificate):
    with registries.with_tokens(tmp_path / "closed", certificate, catalog=False) as registry:
        configured(registry.entry("R"))
        api.push(f"{registry.host}/scoped/shop:1", FILES)
        closed = api.sync_registry("R")
        configured(registry.entry("R", repositoryScope="scoped/shop, scoped/none"))
        named = api.sync_registry("R")

    assert [(error.repository, error.code) for error in closed.errors] == [("", "catalog_refused")]
    assert named.packages == 1
    assert [(error.repository, error.code) for error in named.errors] == [
        (f"{registry.host}/scoped/none", "not_found")
    ]


def test_the_scope_is_matched_by_whole_segments(running, configured):
    registry: RunningRegistry = running["plain"]
    configured(registry.entry("R"))
    for path in ("team/a", "team/b", "teamwork/c"):
        api.push(f"{registry.host}/{path}:1", FILES)
    configured(registry.entry("R", repositoryScope="team"))

    api.sync_registry("R")

    assert [each.path for each in api.list_repositories()] == ["team/a", "team/b"]


def test_a_tampered_layer_is_refused(running, configured, tmp_path):
    """Somebody changes a file of the registry's storage. Invariant 24."""
    registry: RunningRegistry = running["plain"]
    configured(registry.entry("R", repositoryScope="tampered"))
    name = f"{registry.host}/tampered/shop"
    pushed = api.push(f"{name}:1", {"suite.star": b"# tampered\n"})
    manifest = json.loads(registry.blob(pushed.digest).read_bytes())
    layer = registry.blob(manifest["layers"][0]["digest"])
    content = layer.read_bytes()
    layer.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))

    with pytest.raises(api.DigestMismatch):
        api.pull(f"{name}:1")
    result = api.sync_registry("R")

    assert [error.code for error in result.errors] == ["digest_mismatch"]
    (found,) = api.list_repositories()
    assert (found.pulled, found.error_code) == (False, "digest_mismatch")
    assert not StoredPackage.objects.exists()

    layer.write_bytes(content)  # it is repaired, and pulled at the next synchronization
    assert api.sync_registry("R").errors == ()
    assert api.list_repositories()[0].pulled


def test_a_tampered_manifest_is_refused(running, configured):
    registry: RunningRegistry = running["plain"]
    configured(registry.entry("R"))
    name = f"{registry.host}/tampered-too/shop"
    pushed = api.push(f"{name}:1", {"suite.star": b"# tampered too\n"})
    manifest = registry.blob(pushed.digest)
    manifest.write_bytes(manifest.read_bytes().replace(b"suite.v1", b"suite.v2"))

    with pytest.raises((api.PackageRefused, api.RegistryUnreachable, api.PackageNotFound)):
        api.pull(f"{name}@{pushed.digest}")
    assert not StoredPackage.objects.exists()


def test_a_lost_registry_keeps_its_content_and_the_others_show(
    running, configured, tmp_path, settings
):
    there: RunningRegistry = running["basic"]
    with registries.plain(tmp_path / "lost") as lost:
        configured(lost.entry("Lost"), there.entry("There", repositoryScope="alone"))
        api.push(f"{lost.host}/core/lost:1", FILES)
        api.push(f"{there.host}/alone/there:1", FILES)
        assert api.sync_registry("Lost").errors == api.sync_registry("There").errors == ()

    result = api.sync_registry("Lost")
    api.sync_registry("There")

    assert [(error.repository, error.code) for error in result.errors] == [
        ("", "registry_unreachable")
    ]
    assert [(each.registry_id, each.path) for each in api.list_repositories()] == [
        ("Lost", "core/lost"),
        ("There", "alone/there"),
    ]
    (warning,) = api.registry_warnings()
    assert (warning.registry_id, warning.code) == ("Lost", "registry_unreachable")
    assert api.pull(f"{lost.host}/core/lost:1").files == FILES  # what was kept
    with pytest.raises(api.RegistryUnreachable):
        api.pull(f"{lost.host}/core/lost:2")


def test_an_unchanged_registry_is_asked_for_nothing_but_tags_and_digests(running, configured):
    registry: RunningRegistry = running["plain"]
    configured(registry.entry("R", repositoryScope="unchanged"))
    api.push(f"{registry.host}/unchanged/shop:1", FILES)
    api.sync_registry("R")
    seen = StoredPackage.objects.get().created_at
    before = api.list_repositories()

    api.sync_registry("R")

    assert StoredPackage.objects.get().created_at == seen
    (now,) = api.list_repositories()
    assert now.seen_at >= before[0].seen_at
    moved = api.push(f"{registry.host}/unchanged/shop:1", {"suite.star": b"# moved\n"}, force=True)
    api.sync_registry("R")
    assert api.list_repositories()[0].digest == moved.digest
    assert api.stored_package(moved.digest) is not None


def test_what_is_due_is_synchronized_in_the_background(running, configured, settings):
    registry: RunningRegistry = running["plain"]
    configured(registry.entry("R", repositoryScope="due"))
    api.push(f"{registry.host}/due/shop:1", FILES)

    assert due_registries() == ["R"]
    assert sync_due() == 1
    assert due_registries() == []
    assert sync_due() == 0
    configured(registry.entry("R", repositoryScope="due, other"))  # other settings are due at once
    assert due_registries() == ["R"]


def test_one_synchronization_of_a_registry_runs_at_a_time(running, configured):
    registry: RunningRegistry = running["plain"]
    configured(registry.entry("R"))
    sync._take_lease(get_registry("R"), "another")

    with pytest.raises(SyncInProgress):
        api.sync_registry("R")

    RegistryState.objects.update(leased_until=clock.now())  # its process has died
    api.sync_registry("R")


def test_the_route_answers_with_the_settings_and_what_was_found(running, configured):
    registry: RunningRegistry = running["plain"]
    configured(registry.entry("R", repositoryScope="route"))
    api.push(f"{registry.host}/route/shop:1", FILES)

    answer = admin().post("/api/v1/platform-settings/registries/R/sync")

    assert answer.status_code == 200
    assert answer.json()["sync"]["packages"] == 1
    assert answer.json()["registries"][0]["syncStatus"] == "Indexed"
    assert "lastSyncedAt" in answer.json()["registries"][0]


def admin() -> APIClient:
    client = APIClient()
    client.force_authenticate(user=cast("Any", replace(PERSON, is_admin=True)))
    return client
