"""GET and PUT /platform-settings (reference: control-plane 4)."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from rest_framework.test import APIClient

from apps.accounts.api import operator
from apps.health.api import probes
from apps.health.services import runner
from apps.operations.api import generation, mail_server
from apps.platform_settings.api import (
    RegistryNotFound,
    backends,
    get_registry,
    global_overrides,
    record_sync,
    registries,
    settings_history,
    workspace_shares,
)
from apps.platform_settings.domain.document import WorkspaceShare
from apps.platform_settings.domain.keys import MASK
from apps.platform_settings.models import PlatformSettings, SettingsChange
from apps.platform_settings.services.live_settings import live_settings
from tests.apps.platform_settings.documents import (
    PATH,
    SECRETS,
    admin_client,
    document,
    put,
    viewer_client,
)

TEAM = "01890a5d-ac96-774b-bcce-b302099a8057"


def shares(**facts: Any) -> dict[str, Any]:
    return {"workspaces": [{"workspaceId": TEAM, **facts}]}


def places(**facts: Any) -> dict[str, Any]:
    agent = {"agentId": "a", "name": "A", "type": "local", "default": True}
    return {"agents": [{**agent, **facts}]}


@pytest.fixture(autouse=True)
def _file(settings: Any, tmp_path: Any, transactional_db: None) -> None:
    settings.PLATFORM_SETTINGS_FILE = tmp_path / "configuration.yaml"


@pytest.fixture
def admin() -> APIClient:
    return admin_client()


@pytest.fixture
def viewer() -> APIClient:
    return viewer_client()


def test_what_is_stored_comes_back_in_its_canonical_form(admin: APIClient) -> None:
    answer = put(admin, document())

    assert answer.status_code == 200, answer.json()
    body = answer.json()
    assert body == admin.get(PATH).json()
    local, edge = body["agents"]
    assert (local["type"], local["enabled"], local["default"]) == ("local", True, True)
    assert (edge["name"], edge["routingTags"], edge["targetNamespace"]) == (
        "Edge",
        ["zone=eu"],
        "default",
    )
    (registry,) = body["registries"]
    assert (registry["registryUrl"], registry["syncStatus"]) == (
        "http://localhost:5000",
        "Pending",
    )
    assert body["notifications"]["smtp"]["port"] == 587
    assert body["fileInSync"] is True


def test_limits_of_backends_and_shares_of_workspaces_are_in_force_at_once(
    admin: APIClient,
) -> None:
    share = {"workspaceId": TEAM.upper(), "weight": 3, "maxConcurrentRuns": 2}
    body = document(**places(maxConcurrentRuns=4, maxConcurrentSteps=8), workspaces=[share])

    answer = put(admin, body)

    assert answer.status_code == 200, answer.json()
    assert answer.json()["workspaces"][0]["weight"] == 3
    (backend,) = backends()
    assert (backend.max_concurrent_runs, backend.max_concurrent_steps) == (4, 8)
    assert workspace_shares() == (
        WorkspaceShare(workspace_id=TEAM, weight=3, max_concurrent_runs=2),
    )


def test_a_first_read_shows_the_built_in_backend(viewer: APIClient) -> None:
    body = viewer.get(PATH).json()

    assert [agent["agentId"] for agent in body["agents"]] == ["local-docker"]
    assert (body["mode"], body["registries"]) == ("local", [])


def test_every_read_is_live(admin: APIClient) -> None:
    put(admin, document())

    (registry,) = registries()
    assert get_registry("zot") == registry
    assert (registry.secret, registry.allow_local_network) == (SECRETS[0], True)
    assert [each.value for each in global_overrides()] == ["eu", SECRETS[1]]
    server = mail_server()
    assert server is not None
    assert server.password == SECRETS[2]
    with pytest.raises(RegistryNotFound):
        get_registry("other")


def test_no_secret_is_in_a_row_an_answer_or_a_log(
    admin: APIClient, viewer: APIClient, caplog: pytest.LogCaptureFixture
) -> None:
    """Invariant 19."""
    with caplog.at_level(logging.DEBUG):
        answer = put(admin, document())
        changed = document()
        changed["registries"][0]["secret"] = "another-s3cr3t-word"
        put(admin, changed)
    rows = [*PlatformSettings.objects.values(), *SettingsChange.objects.values()]
    shown = [answer.content, admin.get(PATH).content, viewer.get(PATH).content, caplog.text]

    assert "s3cr3t" not in f"{rows} {shown}"
    assert json.dumps(answer.json()).count(MASK) == 4


def test_others_than_administrators_see_less_and_change_nothing(
    admin: APIClient, viewer: APIClient
) -> None:
    """Invariant 17."""
    put(admin, document())

    body = viewer.get(PATH).json()

    assert body["agents"][1]["kubeconfigPath"] == ""
    assert body["registries"][0]["username"] == ""
    assert body["secrets"]["vaultAddress"] == ""
    assert body["notifications"]["smtp"]["username"] == ""
    refused = put(viewer, document())
    assert (refused.status_code, refused.json()["code"]) == (403, "admin_required")


def test_a_mask_keeps_another_value_replaces_and_an_empty_one_clears(admin: APIClient) -> None:
    """Invariant 20."""
    body = put(admin, document()).json()

    put(admin, {**body, "description": "ours"})
    kept = get_registry("zot").secret
    body["registries"][0]["secret"] = "new-word"
    put(admin, body)
    replaced = get_registry("zot").secret
    body["registries"][0]["secret"] = ""
    cleared = put(admin, body).json()["registries"][0]["secret"]

    assert (kept, replaced, cleared) == (SECRETS[0], "new-word", "")
    assert get_registry("zot").secret == ""
    assert [each.value for each in global_overrides()] == ["eu", SECRETS[1]]


def test_a_mask_of_something_new_is_refused(admin: APIClient) -> None:
    """Invariant 20."""
    body = put(admin, document()).json()
    body["registries"][0]["registryId"] = "other"

    answer = put(admin, body)

    assert answer.status_code == 400
    assert [each["pointer"] for each in answer.json()["errors"]] == ["/registries/0/secret"]


def test_a_secret_is_not_shown_by_calling_it_harmless(admin: APIClient) -> None:
    """Invariant 19."""
    body = put(admin, document()).json()
    body["secrets"]["globalOverrides"][1]["sensitive"] = False

    answer = put(admin, body)

    assert answer.status_code == 400
    pointer = "/secrets/globalOverrides/1/value"
    assert [each["pointer"] for each in answer.json()["errors"]] == [pointer]


@pytest.mark.parametrize(
    ("change", "pointer", "code"),
    [
        ({"agents": []}, "/agents", "required"),
        ({"agents": None}, "/agents", "required"),
        ({"mode": "cloud"}, "/mode", "invalid_value"),
        ({"mode": 1}, "/mode", "wrong_type"),
        ({"moods": "x"}, "/moods", "unknown_field"),
        ({"registries": [1]}, "/registries/0", "wrong_type"),
        ({"agents": [{"agentId": "a", "name": "A", "type": None}]}, "/agents/0/type", "required"),
        (
            {"agents": [{"agentId": "a", "name": "A", "type": "local", "enabled": False}]},
            "/agents",
            "invalid_value",
        ),
        (
            {"agents": [{"agentId": i, "name": "A", "type": "", "default": True} for i in "ab"]},
            "/agents",
            "duplicate",
        ),
        (
            {"agents": [{"agentId": "a", "name": "A", "type": "local"}] * 2},
            "/agents/1/agentId",
            "duplicate",
        ),
        (
            {
                "registries": [
                    {"registryId": i, "name": "A", "provider": "Zot", "registryUrl": "http://a"}
                    for i in ("zot", "ZOT")
                ]
            },
            "/registries/1/registryId",
            "duplicate",
        ),
        (shares(workspaceId="team-a"), "/workspaces/0/workspaceId", "invalid_value"),
        ({"workspaces": [{"weight": 2}]}, "/workspaces/0/workspaceId", "required"),
        ({"workspaces": [{"workspaceId": TEAM}] * 2}, "/workspaces/1/workspaceId", "duplicate"),
        (shares(weight=0), "/workspaces/0/weight", "invalid_value"),
        (shares(weight=1_001), "/workspaces/0/weight", "invalid_value"),
        (shares(weight="2"), "/workspaces/0/weight", "wrong_type"),
        (shares(weight=1.5), "/workspaces/0/weight", "wrong_type"),
        (shares(maxConcurrentRuns=-1), "/workspaces/0/maxConcurrentRuns", "invalid_value"),
        (shares(maxConcurrentSteps=True), "/workspaces/0/maxConcurrentSteps", "wrong_type"),
        (shares(share=2), "/workspaces/0/share", "unknown_field"),
        (places(maxConcurrentRuns=100_001), "/agents/0/maxConcurrentRuns", "invalid_value"),
        (places(maxConcurrentSteps="two"), "/agents/0/maxConcurrentSteps", "wrong_type"),
        ({"secrets": {"provider": "cupboard"}}, "/secrets/provider", "invalid_value"),
        ({"notifications": {"smtp": {"port": 70000}}}, "/notifications/smtp/port", "invalid_value"),
        (
            {"description": "${PARTITA_CONFIG_NONE}"},
            "/description",
            "invalid_value",
        ),
        (
            {"notifications": {"smtp": {"password": "encrypted:not-ours"}}},
            "/notifications/smtp/password",
            "undecryptable",
        ),
    ],
)
def test_each_fault_has_its_pointer_and_nothing_is_stored(
    admin: APIClient, change: dict[str, Any], pointer: str, code: str
) -> None:
    """Invariant 33."""
    before = admin.get(PATH).json()

    answer = put(admin, document(**change))

    assert answer.status_code == 400, answer.json()
    assert answer.json()["code"] == "validation_failed"
    assert (pointer, code) in [(each["pointer"], each["code"]) for each in answer.json()["errors"]]
    assert admin.get(PATH).json() == before


@pytest.mark.parametrize("body", [[], "text", 1])
def test_a_body_that_is_no_object_is_refused(admin: APIClient, body: Any) -> None:
    assert put(admin, body).status_code == 400


def test_a_document_that_is_too_large_is_refused_before_it_is_read(admin: APIClient) -> None:
    """Invariant 33."""
    answer = put(admin, document(agents=[0] * 400_000))

    assert answer.status_code == 400
    assert answer.json()["detail"] == "the settings are larger than 1048576 bytes"


def test_of_many_faults_a_hundred_are_told(admin: APIClient) -> None:
    answer = put(admin, document(agents=[0] * 1_000)).json()

    assert answer["detail"].endswith("(and 999 more)")
    assert len(answer["errors"]) == 100


def test_read_only_keys_are_ignored(admin: APIClient) -> None:
    body = document(updatedAt="never", fileInSync=[])
    body["agents"][0] |= {"status": 5, "runtimeCapabilities": "x", "registeredAt": None}
    body["registries"][0] |= {"syncStatus": {}, "lastError": 1}

    assert put(admin, body).status_code == 200


def test_a_change_needs_the_tag_that_was_read(admin: APIClient) -> None:
    """Invariant 31."""
    old = admin.get(PATH)["ETag"]
    first = put(admin, document(), **{"If-Match": old})
    second = put(admin, document(description="mine"), **{"If-Match": old})

    assert (first.status_code, second.status_code) == (200, 412)
    assert second.json()["code"] == "precondition_failed"
    assert put(admin, document(), **{"If-Match": "*"}).status_code == 200
    assert admin.get(PATH).json()["description"] == ""


def test_the_tag_fits_when_only_a_secret_was_changed_but_not_after(admin: APIClient) -> None:
    old = put(admin, document())["ETag"]
    changed = document()
    changed["registries"][0]["secret"] = "first"
    first = put(admin, changed, **{"If-Match": old})
    changed["registries"][0]["secret"] = "second"
    second = put(admin, changed, **{"If-Match": old})

    assert (first.status_code, second.status_code) == (200, 412)
    assert get_registry("zot").secret == "first"


def test_a_sync_between_read_and_write_is_no_conflict(admin: APIClient) -> None:
    read = put(admin, document())
    record_sync("zot", succeeded=False, error="no answer")

    now = admin.get(PATH)
    (registry,) = now.json()["registries"]

    assert (registry["syncStatus"], registry["lastError"]) == ("Failed", "no answer")
    assert "lastSyncedAt" not in registry
    assert now["ETag"] != read["ETag"]
    again = admin.get(PATH, headers={"If-None-Match": now["ETag"]})
    assert again.status_code == 304
    assert put(admin, document(description="x"), **{"If-Match": read["ETag"]}).status_code == 200


def test_a_sync_is_recorded_and_forgotten_with_its_address(admin: APIClient) -> None:
    put(admin, document())
    before = generation("platform")
    record_sync("zot", succeeded=True)
    (registry,) = admin.get(PATH).json()["registries"]
    assert registry["syncStatus"] == "Indexed"
    assert registry["lastSyncedAt"].endswith("Z")
    assert generation("platform") > before
    with pytest.raises(RegistryNotFound):
        record_sync("other", succeeded=True)

    moved = document()
    moved["registries"][0]["registryUrl"] = "http://localhost:5001"
    put(admin, moved)

    assert admin.get(PATH).json()["registries"][0]["syncStatus"] == "Pending"


def test_every_change_is_audited_with_masked_values(
    admin: APIClient, caplog: pytest.LogCaptureFixture
) -> None:
    put(admin, document())
    changed = document(description="ours")
    changed["agents"].reverse()
    changed["registries"][0]["secret"] = "new-s3cr3t"
    changed["secrets"]["globalOverrides"][0]["value"] = "us"
    caplog.clear()
    with caplog.at_level(logging.INFO, "partita.audit"):
        put(admin, changed)
    lines = [json.loads(record.getMessage()) for record in caplog.records]
    (line,) = [each for each in lines if each["type"] == "settings.changed"]
    latest = SettingsChange.objects.order_by("-time").first()

    assert line["changes"] == [
        {"key": "description", "old": "", "new": "ours"},
        {"key": "registries[zot].secret", "old": MASK, "new": MASK},
        {"key": "secrets.globalOverrides[REGION].value", "old": "eu", "new": "us"},
        {"key": "agents (order)", "old": "local, edge", "new": "edge, local"},
    ]
    assert latest is not None
    assert latest.changes == line["changes"]
    assert latest.user_name == "Administrator <root@example.org>"
    assert line["userId"] == latest.user_id


def test_the_history_forgets_a_value_that_became_a_secret(admin: APIClient) -> None:
    """Invariant 19."""
    put(admin, document())
    changed = document()
    changed["secrets"]["globalOverrides"][0] = {
        "key": "REGION",
        "value": "w0rd",
        "sensitive": False,
    }
    put(admin, changed)
    changed["secrets"]["globalOverrides"][0]["sensitive"] = True
    put(admin, changed)

    history = settings_history(operator(), 20)

    assert "w0rd" not in repr(history)
    told = {each.key: each.new for entry in history for each in entry.changes}
    assert told["secrets.globalOverrides[REGION].value"] == MASK


def test_the_same_document_again_is_no_change(admin: APIClient) -> None:
    first = put(admin, document())
    second = put(admin, document())

    assert second["ETag"] == first["ETag"]
    assert SettingsChange.objects.count() == 1


def test_an_older_key_still_reads_what_it_encrypted(admin: APIClient, settings: Any) -> None:
    put(admin, document())
    settings.ENCRYPTION_KEYS = ["new-key", *settings.ENCRYPTION_KEYS]
    put(admin, document(description="written with the new key"))

    assert get_registry("zot").secret == SECRETS[0]


def test_a_lost_key_loses_secrets_only_and_readiness_says_so(
    admin: APIClient, settings: Any
) -> None:
    put(admin, document())
    settings.ENCRYPTION_KEYS = ["unrelated-key"]
    live_settings.forget()

    assert get_registry("zot").secret == ""
    state = probes["platform-settings"].check()
    assert not state.ready
    assert "/agents/1/tlsKey" in state.detail


def test_a_secret_that_no_key_decrypts_reads_as_unset_with_a_warning(
    admin: APIClient, viewer: APIClient, settings: Any
) -> None:
    put(admin, document())
    settings.ENCRYPTION_KEYS = ["unrelated-key"]
    live_settings.forget()

    shown = admin.get(PATH).json()

    assert shown["registries"][0]["secret"] == ""
    assert shown["agents"][1]["tlsKey"] == ""
    assert shown["secrets"]["globalOverrides"][0]["value"] == "eu"
    warned = {each["pointer"]: each for each in shown["warnings"]}
    assert set(warned) == {
        "/agents/1/tlsKey", "/registries/0/secret", "/secrets/globalOverrides/1/value",
        "/notifications/smtp/password",
    }  # fmt: skip
    assert warned["/registries/0/secret"]["code"] == "undecryptable"
    assert "SETTINGS_PREVIOUS_ENCRYPTION_KEYS" in warned["/registries/0/secret"]["detail"]
    assert viewer.get(PATH).json()["warnings"] == shown["warnings"]


def test_what_was_read_without_the_key_and_sent_back_loses_no_secret(
    admin: APIClient, settings: Any
) -> None:
    """Another key is entered anew; the rest is there when the old key is."""
    keys = list(settings.ENCRYPTION_KEYS)
    put(admin, document())
    settings.ENCRYPTION_KEYS = ["unrelated-key"]
    live_settings.forget()
    changed = {**admin.get(PATH).json(), "description": "changed"}
    changed["notifications"]["smtp"]["password"] = "entered-anew"
    assert put(admin, changed).status_code == 200
    assert "/notifications/smtp/password" not in [
        each["pointer"] for each in admin.get(PATH).json()["warnings"]
    ]

    settings.ENCRYPTION_KEYS = ["unrelated-key", *keys]
    live_settings.forget()

    assert get_registry("zot").secret == SECRETS[0]
    assert admin.get(PATH).json()["warnings"] == []
    server = mail_server()
    assert server is not None
    assert server.password == "entered-anew"


def test_the_page_names_secrets_that_no_key_decrypts(admin: APIClient, settings: Any) -> None:
    put(admin, document())
    settings.ENCRYPTION_KEYS = ["unrelated-key"]
    live_settings.forget()

    page = admin.get("/settings/registries").content.decode()

    assert "cannot be decrypted" in page
    assert "/registries/0/secret" in page


def test_a_lost_key_takes_no_server_out_of_service(admin: APIClient, settings: Any) -> None:
    put(admin, document())
    settings.ENCRYPTION_KEYS = ["unrelated-key"]
    live_settings.forget()
    runner.forget()

    component = admin.get("/readyz/platform-settings")

    assert component.status_code == 200
    assert component.json()["status"] == "degraded"
    for pointer in ("/agents/1/tlsKey", "/registries/0/secret", "/notifications/smtp/password"):
        assert pointer in component.json()["detail"]


def test_history_is_bounded(admin: APIClient, monkeypatch: pytest.MonkeyPatch) -> None:
    from apps.platform_settings.services import changes

    monkeypatch.setattr(changes, "HISTORY_ROWS", 3)
    for number in range(6):
        put(admin, document(description=str(number)))

    assert SettingsChange.objects.count() == 3
