"""The routes of profiles (reference: control-plane 10).

Invariant 31: two writes with one `If-Match` do not both succeed, a deleted profile file does not
come back, and a suite never has two defaults.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, cast
from uuid import uuid4

import pytest
from django.db import connection
from rest_framework.test import APIClient

from apps.accounts.services.workspaces import new_workspace
from apps.suites import api as suites
from tests.support.api_clients import PERSON, problem, signed_in_client

STAR = 'task.run("t", image="busybox:1.36")\n'
ROOT = "/api/v1/profiles/suites"
pytestmark = [
    pytest.mark.urls("tests.apps.suites.urlconf"),
    pytest.mark.django_db,
    pytest.mark.store,
]


@pytest.fixture
def client() -> APIClient:
    return signed_in_client()


@pytest.fixture
def shop(workspace, settings, tmp_path):
    settings.PROFILES_FILE = tmp_path / "svc-profiles.yaml"
    workspace.add(
        "shop",
        {
            "suite.star": STAR,
            "profiles/base.yaml": "env: {A: '1', B: '1'}\n",
            "profiles/ci.yaml": "# for pipelines\ndefault: true # really\nextendsId: base\n",
            "profiles/local.yaml": "env: {A: '2'}\n",
        },
    )
    return workspace


def body(**more: Any) -> dict[str, Any]:
    return {"name": "Nightly", "fileName": "nightly.yaml", "yaml": "env: {A: '3'}\n", **more}


def post(client, document, path="/shop", **more):
    return client.post(f"{ROOT}{path}", document, format="json", **more)


def put(client, document, profile, **more):
    return client.put(f"{ROOT}/shop/{profile}", document, format="json", **more)


def profiles(client) -> dict[str, dict[str, Any]]:
    return {each["id"]: each for each in client.get(f"{ROOT}/shop").json()["profiles"]}


def pointers(answer) -> list[str]:
    assert problem(answer) == (400, "validation_failed"), answer.json()
    return [entry["pointer"] for entry in answer.json()["errors"]]


def test_the_list_counts_profiles(client, shop):
    shop.add("empty", STAR)

    answer = client.get(ROOT).json()

    assert answer["total"] == 2
    assert answer["suites"][1] == {
        "id": "shop",
        "title": "Shop",
        "description": "",
        "repository": "workspace/shop",
        "profileCount": 3,
        "launchableCount": 2,
        "defaultProfileFileName": "ci.yaml",
    }
    assert "defaultProfileFileName" not in answer["suites"][0]


def test_the_files_are_the_first_profiles(client, shop):
    """Invariant 2: nobody is made up as the author of a file, and no time."""
    answer = client.get(f"{ROOT}/shop")
    document = answer.json()

    assert (document["defaultProfileId"], document["defaultProfileFileName"]) == ("ci", "ci.yaml")
    assert [each["id"] for each in document["profiles"]] == ["ci", "base", "local"]
    assert document["profiles"][0] == {
        "id": "ci",
        "name": "Ci",
        "fileName": "ci.yaml",
        "scope": "CI",
        "yaml": "# for pipelines\ndefault: true # really\nextendsId: base\n",
        "secretRefs": [],
        "default": True,
        "extendsId": "base",
        "launchable": True,
        "source": "workspace",
    }
    assert document["profiles"][1]["launchable"] is False
    again = client.get(f"{ROOT}/shop", headers={"If-None-Match": answer["ETag"]})
    assert again.status_code == 304


def test_a_new_profile_is_in_force_everywhere(client, shop):
    answer = post(client, body(default=True))

    assert answer.status_code == 201
    assert answer["Location"] == f"{ROOT}/shop/nightly"
    assert answer["ETag"] == client.get(f"{ROOT}/shop")["ETag"]
    made = profiles(client)["nightly"]
    assert (made["source"], made["default"], made["updatedBy"]) == ("managed", True, "Ada Lovelace")
    assert made["yaml"] == "env: {A: '3'}\ndefault: true\n"
    assert [each for each in profiles(client).values() if each["default"]] == [made]
    shown = suites.get_definition("shop")["profiles"]
    assert [(each["fileName"], each["default"]) for each in shown] == [
        ("nightly.yaml", True),
        ("ci.yaml", False),
        ("local.yaml", False),
    ]


def test_a_write_to_a_file_makes_it_a_record(client, shop):
    answer = put(client, body(name="CI", fileName="fast.yaml", yaml="{env: {A: '9'}}"), "ci")

    assert answer.status_code == 200
    changed = profiles(client)["ci"]
    assert (changed["fileName"], changed["source"]) == ("fast.yaml", "managed")
    shop.add("shop", {"profiles/ci.yaml": "env: {A: '10'}\n"})
    assert profiles(client)["ci"]["yaml"] == "{env: {A: '9'}}"


def test_the_default_moves_and_comments_stay(client, shop):
    assert client.post(f"{ROOT}/shop/local/default").status_code == 200
    assert [each["id"] for each in profiles(client).values() if each["default"]] == ["local"]

    answer = client.post(f"{ROOT}/shop/ci/default")

    assert answer.json()["defaultProfileId"] == "ci"
    found = profiles(client)
    assert found["local"]["yaml"] == "env: {A: '2'}\ndefault: false\n"
    assert found["ci"]["yaml"] == "# for pipelines\ndefault: true # really\nextendsId: base\n"
    client.post(f"{ROOT}/shop/local/default")
    assert profiles(client)["ci"]["yaml"].splitlines()[1] == "default: false # really"


def test_a_base_cannot_be_the_default(client, shop):
    assert problem(client.post(f"{ROOT}/shop/base/default")) == (409, "profile_not_launchable")


def test_what_others_extend_stays(client, shop):
    assert problem(client.delete(f"{ROOT}/shop/base")) == (409, "profile_in_use")


def test_a_deleted_file_stays_away_until_it_changes(client, shop):
    assert client.delete(f"{ROOT}/shop/ci").json()["defaultProfileId"] == "local"
    assert "ci" not in profiles(client)
    assert "ci.yaml" not in str(suites.get_definition("shop")["profiles"])

    shop.add("shop", {"profiles/ci.yaml": "env: {NEW: '1'}\n"})

    assert profiles(client)["ci"]["source"] == "workspace"


def test_a_deleted_record_of_a_file_stays_away_as_well(client, shop):
    put(client, body(fileName="ci.yaml"), "ci")
    assert client.delete(f"{ROOT}/shop/ci").status_code == 200
    assert "ci" not in profiles(client)
    assert post(client, body(fileName="ci.yaml")).json()
    assert profiles(client)["ci"]["source"] == "managed"


@pytest.mark.parametrize(
    ("changes", "places"),
    [
        ({"fileName": "nightly.txt"}, ["/fileName"]),
        ({"fileName": "a/b.yaml"}, ["/fileName"]),
        ({"fileName": " "}, ["/fileName"]),
        ({"name": " "}, ["/name"]),
        ({"yaml": ""}, ["/yaml"]),
        ({"yaml": "- 1"}, ["/yaml"]),
        ({"yaml": "# nothing"}, ["/yaml"]),
        ({"yaml": "a: " + "x" * 300_000}, ["/yaml"]),
        ({"yaml": "env: {A: 1}\nenv: {}"}, ["/yaml"]),
        ({"yaml": "modules: 3"}, ["/yaml"]),
        ({"yaml": "network: host"}, ["/yaml"]),
        ({"yaml": "services: {t: {devices: [a]}}"}, ["/yaml"]),
        ({"yaml": "env: {PARTITA_STEP_ID: x}"}, ["/yaml"]),
        ({"yaml": "services: {t: {env: {TRACEPARENT: x}}}"}, ["/yaml"]),
        ({"yaml": "secretRefs: [{key: A, provider: nobody, ref: x}]"}, ["/yaml"]),
        ({"yaml": "secretRefs: [{key: A, provider: vault, ref: ../x}]"}, ["/yaml"]),
        ({"secretRefs": [{"key": "1", "provider": "vault", "ref": "a/b"}]}, ["/secretRefs/0/key"]),
        ({"secretRefs": [{"key": "A", "provider": "?", "ref": "a"}]}, ["/secretRefs/0/provider"]),
        ({"secretRefs": [{"key": "A", "provider": "vault", "ref": "a//b"}]}, ["/secretRefs/0/ref"]),
        ({"secretRefs": [{"key": "A"}]}, ["/secretRefs/0/provider", "/secretRefs/0/ref"]),
        ({"extendsId": "nothing"}, ["/extendsId"]),
        ({"default": True, "launchable": False}, ["/default"]),
        ({"id": "x"}, ["/id"]),
        ({"name": 3}, ["/name"]),
        ({"fileName": "x.yaml", "name": "a\u0007b"}, ["/name"]),
    ],
)
def test_faults_have_their_places(client, shop, changes, places):
    before = client.get(f"{ROOT}/shop")["ETag"]

    assert pointers(post(client, body(**changes))) == places
    assert client.get(f"{ROOT}/shop")["ETag"] == before


def test_a_fault_in_the_yaml_has_line_and_column(client, shop):
    entry = post(client, body(yaml="env:\n  A: [1]\n")).json()["errors"][0]

    assert (entry["file"], entry["line"], entry["column"]) == ("nightly.yaml", 2, 6)


def test_chains_do_not_close(client, shop):
    answer = put(client, body(fileName="base.yaml", extendsId="ci", launchable=False), "base")

    assert pointers(answer) == ["/extendsId"]
    assert "ci -> base" in answer.json()["detail"]
    own = put(client, body(fileName="local.yaml", extendsId="local"), "local")
    assert pointers(own) == ["/extendsId"]


def test_a_managed_base_stays_a_base_and_is_no_default(client, shop):
    assert put(client, body(fileName="base.yaml"), "base").status_code == 200

    assert profiles(client)["base"]["launchable"] is False
    answer = client.post(f"{ROOT}/shop/base/default")
    assert problem(answer) == (409, "profile_not_launchable")


def test_what_a_body_does_not_have_is_not_added_to_the_file(client, shop):
    text = "# for pipelines\ndefault: true # really\nextendsId: base\n"
    assert put(client, body(fileName="ci.yaml", yaml=text), "ci").status_code == 200

    assert profiles(client)["ci"]["yaml"].startswith("# for pipelines\ndefault: true # really\n")
    assert "description" not in profiles(client)["ci"]["yaml"]


def test_a_file_name_is_unique_whatever_its_case(client, shop):
    assert problem(post(client, body(fileName="CI.yaml"))) == (409, "profile_duplicate")
    assert problem(put(client, body(fileName="Base.YAML"[:6] + "yaml"), "ci"))[0] in (400, 409)


def test_ids_do_not_clash(client, shop):
    answer = post(client, body(fileName="ci.yml"))

    assert answer["Location"].endswith("/ci-2")


def test_secrets_of_the_body_win_by_key(client, shop):
    text = (
        "secretRefs:\n- {key: A, provider: vault, ref: a/b}\n- {key: B, provider: local, ref: b}\n"
    )
    own = [{"key": "A", "provider": "local", "ref": "mine"}]

    post(client, body(yaml=text, secretRefs=own))

    assert profiles(client)["nightly"]["secretRefs"] == [
        *own,
        {"key": "B", "provider": "local", "ref": "b"},
    ]


def test_plain_secrets_and_unknown_keys_are_warned_of(client, shop):
    post(client, body(yaml="image: x\nenv: {DB_PASSWORD: hunter22}\n"))

    found = client.get(f"{ROOT}/shop").json()["warnings"]

    assert [(each["profileId"], each["code"]) for each in found] == [
        ("nightly", "unknown_key"),
        ("nightly", "plain_secret"),
    ]
    assert "hunter22" not in str(found)


def test_unknown_suites_and_profiles_come_before_faults(client, shop):
    for answer in (
        client.get(f"{ROOT}/nowhere"),
        post(client, {"bad": 1}, "/nowhere"),
        client.delete(f"{ROOT}/nowhere/ci"),
        client.post(f"{ROOT}/nowhere/ci/default"),
    ):
        assert problem(answer) == (404, "suite_not_found")
    for answer in (
        put(client, {"bad": 1}, "nobody"),
        client.delete(f"{ROOT}/shop/nobody"),
        client.post(f"{ROOT}/shop/nobody/default"),
    ):
        assert problem(answer) == (404, "profile_not_found")


def test_a_stale_tag_changes_nothing(client, shop):
    tag = client.get(f"{ROOT}/shop")["ETag"]
    assert post(client, body()).status_code == 201
    stale = {"headers": {"If-Match": tag}}

    for answer in (
        put(client, body(name="other"), "nightly", **stale),
        client.delete(f"{ROOT}/shop/nightly", **stale),
        client.post(f"{ROOT}/shop/nightly/default", **stale),
    ):
        assert problem(answer) == (412, "precondition_failed")
    fresh = client.get(f"{ROOT}/shop")["ETag"]
    assert (
        put(client, body(name="other"), "nightly", headers={"If-Match": fresh}).status_code == 200
    )


def test_authors_are_shown_in_their_own_workspace(client, shop):
    post(client, body())

    assert profiles(client)["nightly"]["updatedBy"] == "Ada Lovelace"
    stranger = APIClient()
    elsewhere = replace(PERSON, workspace_id=uuid4())
    stranger.force_authenticate(user=cast("Any", elsewhere))
    assert "updatedBy" not in profiles(stranger)["nightly"]


def test_writes_can_be_for_administrators_only(client, shop, settings):
    settings.PROFILE_WRITES = "admin"

    assert problem(post(client, body())) == (403, "admin_required")


def test_with_a_second_workspace_only_administrators_write(client, shop, settings):
    new_workspace("One", "one")
    assert post(client, body()).status_code == 201
    new_workspace("Two", "two")

    assert problem(client.post(f"{ROOT}/shop/nightly/default")) == (403, "admin_required")

    settings.PROFILE_WRITES = "members"
    assert client.post(f"{ROOT}/shop/nightly/default").status_code == 200


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("conditional", [True, False])
def test_two_administrators_at_once(client, shop, conditional):
    post(client, body())
    tag = client.get(f"{ROOT}/shop")["ETag"]
    barrier = threading.Barrier(2)

    def make_default(profile: str) -> int:
        barrier.wait()
        headers = {"If-Match": tag} if conditional else {}
        status: int = client.post(f"{ROOT}/shop/{profile}/default", headers=headers).status_code
        connection.close()
        return status

    with ThreadPoolExecutor(2) as pool:
        statuses = sorted(pool.map(make_default, ["local", "nightly"]))

    assert statuses == ([200, 412] if conditional else [200, 200])
    assert sum(each["default"] for each in profiles(client).values()) == 1
