"""A settings file as a body, and what it would change (reference: control-plane 4)."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from rest_framework.test import APIClient

from apps.accounts.api import operator
from apps.platform_settings.api import get_registry, replace_settings, settings_document
from tests.apps.platform_settings.documents import (
    PATH,
    SECRETS,
    admin_client,
    document,
    viewer_client,
)

YAML = "application/yaml"
PREVIEW = f"{PATH}/preview"
OTHER = """\
# who edits it writes comments
mode: remote
agents:
  - {agentId: edge, name: Edge, type: remote-agent}
"""


@pytest.fixture(autouse=True)
def _stored(settings: Any, tmp_path: Any, transactional_db: None) -> None:
    settings.PLATFORM_SETTINGS_FILE = tmp_path / "configuration.yaml"
    admin_client()
    replace_settings(operator(), document())


@pytest.fixture
def admin() -> APIClient:
    return admin_client()


def send(client: APIClient, text: str, *, path: str = PATH, **headers: str) -> Any:
    ask = client.put if path == PATH else client.post
    return ask(path, text.encode(), content_type=YAML, headers=headers)


def test_a_file_is_taken_as_it_is(admin: APIClient) -> None:
    answer = send(admin, OTHER)

    assert answer.status_code == 200, answer.json()
    assert [each["agentId"] for each in answer.json()["agents"]] == ["edge"]
    assert settings_document(operator())["mode"] == "remote"


def test_a_mask_of_a_file_keeps_the_secret(admin: APIClient) -> None:
    """Invariant 20."""
    text = yaml.safe_dump(admin.get(PATH).json())
    assert SECRETS[0] not in text

    assert send(admin, text).status_code == 200

    assert get_registry("zot").secret == SECRETS[0]


@pytest.mark.parametrize("path", [PATH, PREVIEW])
def test_a_fault_of_a_file_has_its_line(admin: APIClient, path: str) -> None:
    """Invariant 33."""
    before = settings_document(operator())

    answer = send(admin, OTHER.replace("remote-agent", "remot"), path=path)

    assert (answer.status_code, answer.json()["code"]) == (400, "validation_failed")
    (fault,) = answer.json()["errors"]
    assert (fault["pointer"], fault["file"], fault["line"]) == ("/agents/0/type", "body", 4)
    assert answer.json()["detail"].startswith("body:4:")
    assert settings_document(operator()) == before


MASKED = (
    OTHER
    + """\
registries:
  - registryId: zot
    name: Zot
    provider: Zot
    registryUrl: http://localhost:5000
    secret: "********"
secrets:
  globalOverrides:
    - {key: TOKEN, sensitive: true, value: "********"}
"""
)


@pytest.mark.parametrize("path", [PATH, PREVIEW])
@pytest.mark.parametrize(
    ("text", "pointer", "place", "words"),
    [
        (MASKED.replace("zot", "new"), "/registries/0/secret", "10:13", "no stored value to keep"),
        (MASKED.replace(":5000", ":6000"), "/registries/0/secret", "10:13", "Url has changed"),
        (
            MASKED.replace("true", "false"),
            "/secrets/globalOverrides/0/value",
            "13:45",
            "enter the value again",
        ),
        ("agents: []", "/agents", "1:9", "at least one agent is required"),
        ("mode: local", "/agents", "1:1", "at least one agent is required"),
    ],
)
def test_what_does_not_fit_the_stored_settings_has_its_line(
    admin: APIClient, path: str, text: str, pointer: str, place: str, words: str
) -> None:
    """Invariant 33."""
    answer = send(admin, text, path=path)

    assert (answer.status_code, answer.json()["code"]) == (400, "validation_failed")
    (fault,) = answer.json()["errors"]
    assert (fault["pointer"], fault["file"]) == (pointer, "body")
    assert f"{fault['line']}:{fault['column']}" == place
    assert words in fault["detail"]
    assert answer.json()["detail"] == f"body:{place}: {fault['detail']}"


def test_a_secret_that_is_lost_and_not_written_has_the_line_of_its_entry(
    admin: APIClient, settings: Any
) -> None:
    settings.ENCRYPTION_KEYS = ["unrelated-key"]
    text = MASKED.replace(":5000", ":6000").replace('    secret: "********"\n', "")

    answer = send(admin, text)

    faults = {each["pointer"]: each for each in answer.json()["errors"]}
    fault = faults["/registries/0/secret"]
    assert (fault["line"], fault["column"]) == (6, 5)
    assert "enter the secret again" in fault["detail"]


def test_a_misspelled_key_is_answered_by_the_one_that_was_meant(admin: APIClient) -> None:
    answer = send(admin, OTHER.replace("name: Edge", "nmae: Edge"))

    (unknown, _missing) = answer.json()["errors"]
    assert unknown["detail"] == '"nmae" is not a known key; did you mean name?'
    assert (unknown["line"], unknown["column"]) == (4, 21)


@pytest.mark.parametrize(
    "text", ["", "- a", "a: [", "a: &b [*b]", "mode: local\nmode: remote", "\x00", "# " * 2**20]
)
def test_what_is_no_settings_file_is_refused(admin: APIClient, text: str) -> None:
    """Invariant 33."""
    answer = send(admin, text)

    assert (answer.status_code, answer.json()["code"]) == (400, "validation_failed")


def test_another_kind_of_body_is_refused(admin: APIClient) -> None:
    answer = admin.put(PATH, b"mode: remote", content_type="text/plain")

    assert answer.status_code == 415
    assert answer.json()["detail"] == (
        'Content-Type "text/plain" is not accepted; send application/json or application/yaml'
    )


@pytest.mark.parametrize(
    "media_type",
    [
        "application/yaml",
        "application/x-yaml",
        "text/yaml",
        "text/x-yaml; charset=utf-8",
        "text/vnd.yaml",
        "Text/YAML",
    ],
)
@pytest.mark.parametrize("path", [PATH, PREVIEW])
def test_a_file_is_taken_by_each_name_of_yaml(admin: APIClient, path: str, media_type: str) -> None:
    ask = admin.put if path == PATH else admin.post

    answer = ask(path, OTHER.encode(), content_type=media_type)

    assert answer.status_code == 200, answer.json()


def test_the_description_of_the_api_names_one_media_type_of_yaml(admin: APIClient) -> None:
    described = admin.get("/api/v1/schema", headers={"Accept": "application/json"}).json()

    put = described["paths"][PATH]["put"]["requestBody"]["content"]
    assert set(put) == {"application/json", "application/yaml"}


@pytest.mark.parametrize("form", ["a file", "JSON"])
def test_a_preview_says_what_would_change_and_changes_nothing(admin: APIClient, form: str) -> None:
    before = settings_document(operator())

    if form == "JSON":
        answer = admin.post(PREVIEW, yaml.safe_load(OTHER), format="json")
    else:
        answer = send(admin, OTHER, path=PREVIEW)

    assert answer.status_code == 200, answer.json()
    changes = {each["key"]: (each["old"], each["new"]) for each in answer.json()["changes"]}
    assert changes["mode"] == ("hybrid", "remote")
    assert changes["registries[zot].secret"] == ("********", "")
    assert not [secret for secret in SECRETS if secret in answer.content.decode()]
    assert settings_document(operator()) == before


def test_a_tag_of_former_settings_is_a_conflict(admin: APIClient) -> None:
    tag = admin.get(PATH)["ETag"]
    assert send(admin, OTHER, **{"If-Match": tag}).status_code == 200

    refused = send(admin, OTHER.replace("Edge", "Other"), **{"If-Match": tag})

    assert (refused.status_code, refused.json()["code"]) == (412, "precondition_failed")


def test_others_than_administrators_preview_nothing() -> None:
    """Invariant 17."""
    refused = send(viewer_client(), OTHER, path=PREVIEW)

    assert (refused.status_code, refused.json()["code"]) == (403, "admin_required")
    assert send(APIClient(), OTHER, path=PREVIEW).status_code == 401


def test_a_registry_that_cannot_be_reached_is_said_to_be(admin: APIClient) -> None:
    changed = document()
    changed["registries"][0]["registryUrl"] = "http://127.0.0.1:9"
    replace_settings(operator(), changed)

    answer = admin.post(f"{PATH}/registries/zot/test", {}, format="json")

    assert answer.status_code == 200, answer.json()
    report = answer.json()
    assert (report["registryId"], report["reachable"]) == ("zot", False)
    assert report["code"]
    assert report["detail"]
    assert SECRETS[0] not in answer.content.decode()


def test_a_registry_is_tested_by_administrators_and_by_its_id(admin: APIClient) -> None:
    unknown = admin.post(f"{PATH}/registries/other/test", {}, format="json")
    refused = viewer_client().post(f"{PATH}/registries/zot/test", {}, format="json")

    assert (unknown.status_code, unknown.json()["code"]) == (404, "registry_not_found")
    assert (refused.status_code, refused.json()["code"]) == (403, "admin_required")
