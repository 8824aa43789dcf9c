"""POST /suites and DELETE /suites/{id} (reference: control-plane 9)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest
from django.db import transaction
from rest_framework.test import APIClient

from apps.accounts.api import Principal, Role
from apps.operations.api import raise_generation
from apps.suites import api, selectors
from apps.suites.authoring import suite_files
from apps.suites.evaluation.library import Library
from apps.suites.models import RegisteredSuite
from apps.suites.sources.registered import TOPIC, RegisteredSource
from kernel import clock
from readers.archive import pack, unpack
from tests.support.api_clients import problem
from tests.support.people import somebody

STAR = 'task.run("t", image="busybox:1.36", file="t.sh")\n'
BODY = {"id": "made", "suiteStar": STAR, "title": "Made", "files": {"tasks/t.sh": "#!/bin/sh\n"}}
ADMIN = somebody(is_admin=True, full_name="Root", email="root@example.org", role=Role.VIEWER)
MEMBER = replace(ADMIN, is_admin=False, role=Role.RUNNER)
VIEWER = replace(MEMBER, role=Role.VIEWER)
pytestmark = pytest.mark.urls("tests.apps.suites.urlconf")


def client_of(principal: Principal) -> APIClient:
    client = APIClient(raise_request_exception=False)
    client.force_authenticate(user=cast("Any", principal))
    return client


@pytest.fixture
def admin(workspace) -> APIClient:
    return client_of(ADMIN)


def post(client: APIClient, **more: Any) -> Any:
    return client.post("/api/v1/suites", {**BODY, **more}, format="json")


def test_a_suite_of_text_is_listed_by_every_process_and_can_be_run(admin):
    other = Library()
    assert [each.suite_id for each in other.suites()] == []

    answer = post(admin)

    assert answer.status_code == 201
    assert answer["Location"] == "/api/v1/suites/made"
    definition = answer.json()
    assert (definition["title"], definition["status"]) == ("Made", "Installed")
    assert definition["topology"][0]["id"] == "t"
    assert [each.suite_id for each in other.suites()] == ["made"]
    assert other.suites()[0].source == "registered"
    assert admin.get("/api/v1/suites/made").json() == definition
    resolved = selectors.resolve("made")
    assert resolved.files["tasks/t.sh"] == b"#!/bin/sh\n"
    other.close()


@pytest.mark.parametrize(
    "path", ["/".join(["a"] * 41), "x" * 300, f"tests/{'é' * 128}.sh", "tests/" + "x" * 256]
)
def test_what_could_not_be_packed_or_copied_is_not_stored(admin, path):
    answer = post(admin, files={path: "text"})

    assert problem(answer) == (400, "package_invalid")
    assert answer.json()["detail"].startswith(f"invalid suite topology: {path}")
    assert not RegisteredSuite.objects.exists()


def test_what_is_stored_can_be_read_pushed_and_copied(admin, tmp_path):
    """The longest path and name that are accepted."""
    path = "/".join(["a"] * 31 + ["x" * 250])

    files = {**cast("dict[str, str]", BODY["files"]), path: "text"}
    assert post(admin, files=files).status_code == 201
    suite = Library().suites()[0]
    assert (suite.package.problem, unpack(pack(suite.package.files))) == ("", suite.package.files)
    suite_files.copy_files(suite, tmp_path / "copy")
    assert (tmp_path / "copy" / path).read_text() == "text"


def test_a_removed_suite_is_gone_in_every_process(admin):
    post(admin)
    other = Library()
    assert [each.suite_id for each in other.suites()] == ["made"]

    assert admin.delete("/api/v1/suites/made").status_code == 204

    assert problem(admin.get("/api/v1/suites/made")) == (404, "suite_not_found")
    assert other.suites() == ()
    assert problem(admin.delete("/api/v1/suites/made")) == (404, "suite_not_found")
    assert post(admin).status_code == 201, "the id is free again"


def test_a_folder_of_the_workspace_cannot_be_removed_and_its_id_not_taken(admin, workspace):
    workspace.add("made", STAR.replace(', file="t.sh"', ""))

    assert problem(admin.delete("/api/v1/suites/made")) == (404, "suite_not_found")
    assert problem(post(admin)) == (409, "suite_exists")


def test_a_folder_that_comes_later_has_the_id_and_both_are_listed(admin, workspace):
    post(admin)
    workspace.add("made", {"suite.star": 'task.run("w", image="a:1")', "README.md": "# Folder\n"})

    found = {each["id"]: each["title"] for each in api.list_suites()}

    assert found == {"made": "Folder", "made-registered": "Made"}
    assert problem(admin.delete("/api/v1/suites/made")) == (404, "suite_not_found")
    assert admin.delete("/api/v1/suites/made-registered").status_code == 204
    assert [each["id"] for each in api.list_suites()] == ["made"]
    assert not RegisteredSuite.objects.exists()


@pytest.mark.parametrize(
    ("setting", "principal", "expected"),
    [
        ("admin", MEMBER, (403, "admin_required")),
        ("members", MEMBER, None),
        ("members", VIEWER, (403, "role_required")),
        ("off", ADMIN, (404, "not_found")),
    ],
)
def test_who_may_register_and_remove(workspace, settings, setting, principal, expected):
    settings.SUITE_REGISTRATION = setting
    client = client_of(principal)

    posted = post(client)
    removed = client.delete("/api/v1/suites/made")

    if expected is None:
        assert (posted.status_code, removed.status_code) == (201, 204)
    else:
        assert problem(posted) == problem(removed) == expected
        assert not RegisteredSuite.objects.exists()


@pytest.mark.parametrize(
    ("more", "code", "said"),
    [
        ({"id": "no id"}, "validation_failed", "/id"),
        ({"suiteStar": None}, "validation_failed", "/suiteStar"),
        ({"unknown": 1}, "validation_failed", "/unknown"),
        ({"files": {"suite.star": "x"}}, "validation_failed", "/files/suite.star"),
        ({"files": {"metadata.yaml": "title: x"}}, "validation_failed", "/title"),
        ({"files": {"../x": ""}}, "package_invalid", "../x"),
        ({"files": {"/x": ""}}, "package_invalid", "/x"),
        ({"files": {"a": "", "a/b": ""}}, "package_invalid", "a/b"),
        ({"files": {".hidden": ""}}, "package_invalid", ".hidden"),
        ({"files": {f"f{n}": "" for n in range(600)}}, "package_invalid", "512"),
        ({"files": {"large": "x" * (2 * 2**20 + 1)}}, "package_invalid", "large"),
        ({"title": "", "files": {"metadata.yaml": "id: x"}}, "package_invalid", "metadata.yaml"),
        ({"suiteStar": "nope"}, "topology_invalid", "nope"),
    ],
)
def test_what_is_refused_leaves_nothing_behind(admin, more, code, said):
    answer = post(admin, **more)

    assert problem(answer) == (400, code)
    assert said in answer.content.decode()
    assert not RegisteredSuite.objects.exists()


def test_a_suite_that_a_run_uses_stays(admin, monkeypatch):
    post(admin)
    users = {"runs": lambda suite_id: suite_id == "made"}
    monkeypatch.setattr("apps.suites.services.registration.suite_users", users)

    assert problem(admin.delete("/api/v1/suites/made")) == (409, "execution_active")
    assert admin.get("/api/v1/suites/made").status_code == 200


@pytest.mark.django_db(transaction=True)
def test_a_cached_list_does_not_outlive_a_transaction_that_is_undone(admin):
    post(admin)
    source = RegisteredSource()
    with transaction.atomic():
        RegisteredSuite.objects.create(
            suite_id="undone",
            digest="d",
            files=b"",
            registered_by=ADMIN.user_id,
            registered_at=clock.now(),
        )
        raise_generation(TOPIC)
        assert [each.key for each in source.suites()] == ["made", "undone"]
        transaction.set_rollback(True)
    raise_generation(TOPIC)  # as many changes as before, by another process

    assert [each.key for each in source.suites()] == ["made"]


def test_stored_files_that_were_changed_are_a_broken_suite(admin):
    post(admin)
    RegisteredSuite.objects.update(digest="sha256:" + "0" * 64)

    other = Library()
    (suite,) = other.suites()
    assert suite.package_problem is not None
    assert "are not those of" in suite.package_problem.message
    other.close()
