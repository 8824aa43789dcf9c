"""The pages of profiles."""

from __future__ import annotations

import html
import re
from pathlib import Path

import pytest
from django.test import Client

from apps.profiles.api import stored_profiles
from tests.apps.console.test_team import invited, signed_up
from tests.support.files import write_files

STAR = 'task.run("t", image="busybox:1.36", env={"FROM": "suite"})\n'
YAML = "extendsId: base\nenv:\n  A: '2'\n"


@pytest.fixture(autouse=True)
def shop(tmp_path, settings) -> Path:
    settings.SUITES_DIR = tmp_path / "suites"
    settings.PROFILES_FILE = tmp_path / "svc-profiles.yaml"
    folder: Path = settings.SUITES_DIR / "shop"
    files = {
        "suite.star": STAR,
        "profiles/base.yaml": "env: {A: '1', B: '1'}\n",
        "profiles/ci.yaml": "default: true\nextendsId: base\n",
    }
    return write_files(folder, files)


@pytest.fixture
def ada(db: None) -> Client:
    return signed_up("Ada")


def text_of(client: Client, path: str, **form: str) -> str:
    answer = client.post(path, form) if form else client.get(path)
    return " ".join(html.unescape(answer.content.decode()).split())


def tag_of(client: Client, path: str = "/profiles/shop/ci") -> str:
    found = re.search(r'name="ifMatch" value="([^"]*)"', client.get(path).content.decode())
    assert found
    return html.unescape(found[1])


def form(**more: str) -> dict[str, str]:
    return {
        "name": "Nightly",
        "fileName": "nightly.yaml",
        "yaml": YAML.replace("\n", "\r\n"),
        "launchable": "on",
        **more,
    }


def test_the_list_has_every_suite_with_its_default(ada):
    page = text_of(ada, "/profiles")

    assert 'href="/profiles/shop"' in page
    assert "<code>ci.yaml</code>" in page
    assert '<a href="/profiles" aria-current="page">Profiles</a>' in page


def test_without_suites_the_list_teaches(ada, tmp_path, settings):
    settings.SUITES_DIR = tmp_path / "none"

    assert "suite.star" in text_of(ada, "/profiles")


def test_a_profile_is_written_without_script(ada):
    answer = ada.post("/profiles/shop/-/create", form())

    assert (answer.status_code, answer["Location"]) == (303, "/profiles/shop/nightly?saved")
    assert stored_profiles()["shop"].records[0].yaml == YAML
    page = text_of(ada, "/profiles/shop/nightly?saved")
    assert "Saved." in page
    assert "<code>base.yaml</code> → <code>nightly.yaml</code>" in page
    assert "replaces <code>1</code> of base.yaml" in page
    assert 'href="/profiles/shop/nightly"' in text_of(ada, "/profiles/shop")


def test_faults_keep_the_input_and_name_their_lines(ada):
    answer = ada.post("/profiles/shop/-/create", form(yaml="env:\n  A: [1]\n", name="Mine"))

    page = html.unescape(answer.content.decode())
    assert answer.status_code == 400
    assert 'data-line="2" data-column="6"' in page
    assert "A: [1]" in page
    assert 'value="Mine"' in page
    assert not stored_profiles()


def test_the_check_says_faults_or_the_merged_profile(ada):
    bad = text_of(ada, "/profiles/shop/-/check", **form(yaml="network: host\n"))
    good = text_of(ada, "/profiles/shop/-/check", **form(yaml=f"{YAML}  DB_PASSWORD: hunter22\n"))

    assert "line 1, column 1" in bad
    assert "profiles cannot choose a network" in bad
    assert "Valid." in good
    assert "DB_PASSWORD looks like a secret in plain text" in good
    assert not stored_profiles()


def test_a_conflict_keeps_the_input_and_shows_the_other_change(ada):
    tag = tag_of(ada)
    bea = signed_up("Bea", invitation=invited(ada, "runner"))
    assert (
        bea.post("/profiles/shop/ci/save", form(fileName="ci.yaml", ifMatch=tag)).status_code == 303
    )

    mine = form(fileName="ci.yaml", yaml="env: {A: 'mine'}\n", ifMatch=tag)
    answer = ada.post("/profiles/shop/ci/save", mine)

    page = html.unescape(answer.content.decode())
    assert answer.status_code == 412
    assert "Bea saved this one last" in " ".join(page.split())
    assert "env: {A: 'mine'}" in page
    assert '<span class="removed">-extendsId: base' in page
    again = re.search(r'name="ifMatch" value="([^"]*)"', page)
    assert again
    saved = ada.post("/profiles/shop/ci/save", mine | {"ifMatch": again[1]})
    assert saved.status_code == 303


def test_references_are_rows(ada):
    rows = {"key": ["TOKEN", ""], "provider": ["vault", ""], "ref": ["kv/shop#token", ""]}
    answer = ada.post("/profiles/shop/-/create", form() | rows)

    assert answer.status_code == 303
    stored = stored_profiles()["shop"].records[0].secret_refs
    assert [each.as_dict() for each in stored] == [
        {"key": "TOKEN", "provider": "vault", "ref": "kv/shop#token"}
    ]
    page = text_of(ada, "/profiles/shop/nightly")
    assert 'value="kv/shop#token"' in page
    assert '<span class="chip" title="a secret: read when the step starts">secret</span>' in page


def test_the_environment_of_a_step_has_origins(ada):
    page = text_of(ada, "/profiles/shop/ci/env?step=t")

    assert "<code>FROM</code>" in page
    assert "<td>suite.star</td>" in page
    assert "<td>base.yaml</td>" in page
    assert "PARTITA_STEP_ID" in page
    assert "the suite has no step 'nobody'" in text_of(ada, "/profiles/shop/ci/env?step=nobody")


def test_the_default_moves(ada):
    ada.post("/profiles/shop/-/create", form())

    answer = ada.post("/profiles/shop/nightly/default", {"ifMatch": tag_of(ada)})

    assert answer.status_code == 303
    assert stored_profiles()["shop"].default_id == "nightly"
    stale = ada.post("/profiles/shop/ci/default", {"ifMatch": '"old"'})
    assert stale.status_code == 412
    assert "Someone else changed these profiles first" in stale.content.decode()


def test_deletion_shows_its_consequences(ada):
    page = text_of(ada, "/profiles/shop/ci")
    assert "The suite's file stays." in page
    assert "The suite then has no default profile." in page
    assert "ci.yaml extends it" in text_of(ada, "/profiles/shop/base")

    answer = ada.post("/profiles/shop/ci/delete", {"ifMatch": tag_of(ada)})

    assert answer.status_code == 303
    assert "ci.yaml" not in text_of(ada, "/profiles/shop")


def test_a_viewer_reads(ada):
    vera = signed_up("Vera", invitation=invited(ada, "viewer"))

    for path in ("/profiles/shop", "/profiles/shop/ci", "/profiles/shop/-/new"):
        page = text_of(vera, path)
        assert "Save" not in page
        assert "Make default" not in page
        assert "Delete" not in page
    assert vera.post("/profiles/shop/-/create", form()).status_code == 403
    assert not stored_profiles()


def test_a_hostile_profile_is_text(ada):
    hostile = form(name="<script>alert(1)</script>", yaml="env: {A: '</textarea><script>'}\n")
    ada.post("/profiles/shop/-/create", hostile)

    for path in ("/profiles/shop", "/profiles/shop/nightly"):
        page = ada.get(path).content.decode()
        assert "<script>alert" not in page
        assert "</textarea><script>" not in page


def test_a_profile_is_found_by_its_file_name_too(ada):
    page = text_of(ada, "/profiles/shop/ci.yaml")
    assert 'action="/profiles/shop/ci/save"' in page

    saved = ada.post(
        "/profiles/shop/ci.yaml/save",
        form(name="CI", fileName="ci.yaml", ifMatch=tag_of(ada, "/profiles/shop/ci.yaml")),
    )
    assert (saved.status_code, saved["Location"]) == (303, "/profiles/shop/ci?saved")
    assert ada.get("/profiles/shop/ci.yaml/env").status_code == 200

    gone = ada.post("/profiles/shop/ci.yaml/delete", {"ifMatch": tag_of(ada)})
    assert gone.status_code == 303
    assert ada.get("/profiles/shop/ci.yaml").status_code == 404


def test_unknown_keys_and_a_wrong_parent_are_reported_before_there_is_a_name(ada):
    page = text_of(
        ada, "/profiles/shop/-/check", yaml="extendsId: nowhere\nenvv: {A: '1'}\n", name=""
    )

    assert "is required" in page
    assert '"nowhere" is not a profile of this suite' in page
    assert "envv" in page


def test_the_scope_is_shown_where_it_says_more_than_the_name(ada):
    ada.post("/profiles/shop/-/create", form(scope="Weekly", ifMatch=tag_of(ada)))

    page = text_of(ada, "/profiles/shop")

    assert '<td data-label="Scope">Weekly</td>' in page
    assert '<td data-label="Scope">Base</td>' not in page
    assert '<td data-label="Scope">Ci</td>' not in page
