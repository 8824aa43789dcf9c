"""Secrets belong to the address beside them, and addresses hold no secrets (control-plane 4)."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from rest_framework.test import APIClient

from apps.platform_settings.api import get_registry
from apps.platform_settings.domain.addresses import broken_address_rule, hide_user, origin_of
from apps.platform_settings.domain.secrets import ManagerFailed, SecretManagers
from apps.platform_settings.models import PlatformSettings
from apps.platform_settings.secret_providers.hashicorp_vault import HashicorpVault
from kernel.ids import new_uuid
from tests.apps.platform_settings.documents import PATH, admin_client, document, put, viewer_client


@pytest.fixture(autouse=True)
def _file(settings: Any, tmp_path: Any, transactional_db: None) -> None:
    settings.PLATFORM_SETTINGS_FILE = tmp_path / "configuration.yaml"


@pytest.fixture
def admin() -> APIClient:
    return admin_client()


CLUSTER = {
    "agentId": "edge", "name": "Edge", "type": "kubernetes", "hostUrl": "https://k8s:6443",
    "serviceAccountToken": "word", "tlsKey": "key",
}  # fmt: skip


def _masked(admin: APIClient, **agent: Any) -> dict[str, Any]:
    """Return the stored document as it is read, with masks."""
    body = document()
    body["agents"].append(CLUSTER | {"agentId": "k8s"} | agent)
    assert put(admin, body).status_code == 200
    read: dict[str, Any] = admin.get(PATH).json()
    return read


@pytest.mark.parametrize(
    ("section", "key", "value", "pointers"),
    [
        ("registries", "registryUrl", "http://mine.example:5000", {"/registries/0/secret"}),
        ("registries", "registryUrl", "https://localhost:5000", {"/registries/0/secret"}),
        ("registries", "registryUrl", "http://localhost:5001", {"/registries/0/secret"}),
        (
            "agents",
            "hostUrl",
            "https://mine.example:6443",
            {"/agents/2/serviceAccountToken", "/agents/2/tlsKey"},
        ),
        ("smtp", "host", "mine.example", {"/notifications/smtp/password"}),
        ("smtp", "port", 2525, {"/notifications/smtp/password"}),
    ],
)
def test_a_masked_secret_is_not_sent_to_another_address(
    admin: APIClient, section: str, key: str, value: Any, pointers: set[str]
) -> None:
    body = _masked(admin)
    entry = body["notifications"]["smtp"] if section == "smtp" else body[section][-1]
    entry[key] = value

    answer = put(admin, body)

    assert answer.status_code == 400, answer.json()
    assert {each["pointer"] for each in answer.json()["errors"]} == pointers
    assert "enter the secret again" in answer.json()["detail"]
    assert get_registry("zot").url == "http://localhost:5000"


def test_the_address_changes_with_the_secret_entered_again(admin: APIClient) -> None:
    body = _masked(admin)
    body["registries"][0] |= {"registryUrl": "http://other:5000", "secret": "another"}

    assert put(admin, body).status_code == 200
    assert (get_registry("zot").url, get_registry("zot").secret) == ("http://other:5000", "another")


def test_another_spelling_of_the_address_keeps_the_secret(admin: APIClient) -> None:
    body = _masked(admin)
    body["registries"][0]["registryUrl"] = "http://LOCALHOST:5000/"

    assert put(admin, body).status_code == 200


@pytest.mark.parametrize(
    "url",
    [
        "http://bob:hunter2secret@zot", "http://bob@zot", "bob:hunter2secret@zot", "http://x y",
        "http://h/../../x?y#z", "http://h?y", "http://h#z", "http://h\\x", "ftp://h", "http://",
    ],
)  # fmt: skip
def test_what_is_no_address_is_refused_and_not_repeated(admin: APIClient, url: str) -> None:
    body = document()
    body["registries"][0]["registryUrl"] = url

    answer = put(admin, body)

    assert answer.status_code == 400
    assert answer.json()["errors"][0]["pointer"] == "/registries/0/registryUrl"
    assert "hunter2secret" not in answer.content.decode()
    assert ("use username and secret" in answer.json()["detail"]) == ("@" in url)


@pytest.mark.parametrize(
    ("section", "key"), [("secrets", "vaultAddress"), ("agents", "hostUrl"), ("smtp", "host")]
)
def test_no_address_of_the_settings_may_hold_a_password(
    admin: APIClient, section: str, key: str
) -> None:
    body = document()
    body["agents"].append(CLUSTER | {"agentId": "k8s"})
    entry = {"secrets": body["secrets"], "agents": body["agents"][-1]}.get(
        section, body["notifications"]["smtp"]
    )
    entry[key] = "https://bob:hunter2secret@mine.example"

    answer = put(admin, body)

    assert answer.status_code == 400
    assert answer.json()["errors"][0]["pointer"].endswith(key)


def test_a_password_that_an_older_version_stored_in_a_url_is_shown_to_nobody(
    admin: APIClient, caplog: pytest.LogCaptureFixture
) -> None:
    put(admin, document())
    row = PlatformSettings.objects.get()
    stored = row.document
    stored["registries"][0]["registryUrl"] = "http://bob:hunter2secret@zot:5000"
    PlatformSettings.objects.update(document=stored, revision=new_uuid())

    seen = viewer_client().get(PATH).json()["registries"][0]["registryUrl"]
    mended = admin.get(PATH).json()
    mended["registries"][0] |= {"registryUrl": "http://zot:5000", "secret": "new"}
    with caplog.at_level(logging.INFO, logger="partita.audit"):
        changed = put(admin, mended)

    assert seen == mended["registries"][0]["registryUrl"].replace("http://", "http://********@")
    assert changed.status_code == 200
    assert "hunter2secret" not in caplog.text + json.dumps(changed.json())


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("https://a", "a", True),
        ("https://a:443/x", "https://A./", True),
        ("http://a", "https://a", False),
        ("${PARTITA_CONFIG_URL}", "${PARTITA_CONFIG_OTHER}", False),
    ],
)
def test_an_origin_is_scheme_host_and_port(one: str, other: str, same: bool) -> None:
    assert (origin_of(one) == origin_of(other)) is same


def test_a_user_is_hidden_wherever_it_stands() -> None:
    assert hide_user("tcp://a:b@c:1/@d") == "tcp://********@c:1/@d"
    assert hide_user("https://c/@d") == "https://c/@d"
    assert not broken_address_rule("https://c:8443/@d")


def test_the_token_of_vault_goes_to_the_address_of_the_environment_only(settings: Any) -> None:
    settings.VAULT_ADDR, settings.VAULT_TOKEN = "https://vault:8200", "word"

    with pytest.raises(ManagerFailed, match="another address than VAULT_ADDR"):
        HashicorpVault().check(SecretManagers(vault_address="https://mine.example"))
