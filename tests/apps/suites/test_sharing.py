"""`suite push`, `pull` and `fork` with a real registry (reference: control-plane 5.1, 5.2)."""

from __future__ import annotations

import json

import pytest

from apps.oci import api as oci
from apps.oci.services import sync
from apps.suites import api, selectors
from apps.suites.services import transfers
from tests.support.commands import run_command
from tests.support.registry_suites import REGISTRY_ID, TestRegistry

FILES = {"suite.star": 'task.run("t", file="t.sh")\n', "tasks/t.sh": "#!/bin/sh\necho hi\n"}


@pytest.fixture(autouse=True)
def _store(transactional_db) -> None:
    """Pulled packages are committed."""


@pytest.fixture
def registry(workspace, settings, tmp_path) -> TestRegistry:
    registry = TestRegistry()
    registry.configure(settings, tmp_path)
    workspace.add("mine", FILES)
    return registry


def typed(*words: str) -> int:
    return run_command("suite", *words)


def test_a_suite_goes_to_a_registry_and_comes_back_the_same(registry, tmp_path, capsys):
    reference = f"{registry.repository('mine')}:1.0.0"

    assert typed("push", "mine", reference, "-o", "json") == 0
    captured = capsys.readouterr()
    pushed = json.loads(captured.out)
    assert pushed["contentDigest"] == api.find_suite("mine").digest
    assert f"pushing mine to {reference}" in captured.err

    assert typed("pull", reference, str(tmp_path / "by-tag"), "-o", "json") == 0
    pulled = json.loads(capsys.readouterr().out)
    assert (pulled["digest"], pulled["pulled"]) == (pushed["digest"], True)
    assert pulled["contentDigest"] == pushed["contentDigest"]
    at = f"{registry.repository('mine')}@{pushed['digest']}"
    assert typed("fork", at, str(tmp_path / "by-digest")) == 0
    for folder in ("by-tag", "by-digest"):
        copied = tmp_path / folder
        assert {path: (copied / path).read_text() for path in FILES} == FILES
        assert (copied / "tasks" / "t.sh").stat().st_mode & 0o111


def test_equal_files_have_one_digest_whatever_their_tag_and_folder(registry, workspace, capsys):
    workspace.add("other", FILES)
    digests = set()
    for name, tag in (("mine", "1.0.0"), ("mine", "latest"), ("other", "2")):
        assert typed("push", name, f"{registry.repository('mine')}:{tag}", "-o", "json") == 0
        digests.add(json.loads(capsys.readouterr().out)["digest"])

    assert len(digests) == 1


def test_a_tag_does_not_move_unless_it_is_forced(registry, workspace, capsys):
    reference = f"{registry.repository('mine')}:1.0.0"
    assert typed("push", "mine", reference, "-o", "json") == 0
    first = json.loads(capsys.readouterr().out)
    workspace.add("mine", {"tasks/t.sh": "#!/bin/sh\necho other\n"})

    assert typed("push", "mine", reference) == 5
    said = capsys.readouterr().err
    assert "tag_taken" in said
    assert f"is {first['digest']} already, and would become sha256:" in said
    assert oci.pull(reference).digest == first["digest"]

    assert typed("push", "mine", reference, "--force", "-o", "json") == 0
    moved = json.loads(capsys.readouterr().out)
    assert moved["digest"] in said
    assert oci.pull(reference).digest == moved["digest"] != first["digest"]


def test_the_same_content_again_is_not_sent(registry, capsys):
    reference = f"{registry.repository('mine')}:1.0.0"
    assert typed("push", "mine", reference) == 0

    assert typed("push", "mine", reference) == 0
    assert "is mine already; nothing was pushed" in capsys.readouterr().out


def test_what_was_pulled_is_there_at_once(registry, workspace, settings, library, capsys):
    workspace.add("mine", {"metadata.yaml": "{id: mine, title: Greeter}"})
    reference = f"{registry.repository('mine')}:1.0.0"
    assert typed("push", "mine", reference) == 0
    settings.SUITES_DIR = workspace.root / "none"  # of somebody else
    assert not library.suites()

    assert typed("pull", reference) == 0

    said = capsys.readouterr().out
    assert "it is the suite mine; next:\n  partita run launch mine\n" in said
    assert [each["id"] for each in api.list_suites()] == ["mine"]
    assert selectors.resolve("mine").title == "Greeter"
    assert typed("search", "greeter") == 0
    assert registry.repository("mine") in capsys.readouterr().out
    assert [row.tags for row in oci.list_repositories()] == [("1.0.0",)]


def test_an_older_version_that_is_pulled_leaves_the_listed_one_and_is_launched_by_its_reference(
    registry, workspace, capsys
):
    repository = registry.repository("mine")
    assert typed("push", "mine", f"{repository}:1.0.0") == 0
    workspace.add("mine", {"README.md": "# Newer"})
    assert typed("push", "mine", f"{repository}:2.0.0") == 0
    oci.sync_registry(REGISTRY_ID)
    capsys.readouterr()

    assert typed("pull", f"{repository}:1.0.0", "-o", "json") == 0

    assert json.loads(capsys.readouterr().out)["launchAs"] == f"{repository}:1.0.0"
    assert [row.version for row in oci.list_repositories()] == ["2.0.0"]


def test_a_synchronization_takes_what_was_pulled_meanwhile(registry, monkeypatch):
    """The two write one row."""
    reference = f"{registry.repository('mine')}:1.0.0"
    assert typed("push", "mine", reference) == 0
    written = sync._write

    def pull_first(*args):
        transfers.pull_suite(reference)
        written(*args)

    monkeypatch.setattr(sync, "_write", pull_first)

    assert not oci.sync_registry(REGISTRY_ID).errors
    assert [row.version for row in oci.list_repositories()] == ["1.0.0"]


def test_the_commands_of_a_registry_suite_work_as_printed(registry, tmp_path, monkeypatch, capsys):
    reference = f"{registry.repository('mine')}:1.0.0"
    assert typed("push", "mine", reference) == 0
    definition = api.get_definition(f"{registry.repository('mine')}:1.0.0")
    monkeypatch.chdir(tmp_path)

    assert definition["pullCommand"] == f"partita suite pull {reference}"
    for command in (definition["pullCommand"], definition["forkCommand"]):
        assert typed(*command.split()[2:]) == 0
    assert (tmp_path / "mine" / "suite.star").exists()


def test_whoever_pushes_an_outdated_lock_is_warned(registry, workspace, capsys):
    workspace.add(
        "outer",
        {
            "suite.star": 'suite.run(name = "m", ref = "mine")\n',
            "dependencies.yaml": "dependencies: {mine: mine}",
        },
    )

    assert typed("push", "outer", f"{registry.repository('outer')}:1") == 0
    said = capsys.readouterr().err
    assert "warning: dependencies.lock.yaml is missing or out of date" in said
    assert "warning: mine (mine) is not a registry package" in said

    assert typed("lock", "outer") == 0
    assert typed("push", "outer", f"{registry.repository('outer')}:2") == 0
    assert "out of date" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("push", "nosuch", "{own}/x:1"), 3, "there is no suite 'nosuch'"),
        (("push", "mine", "{own}/x"), 1, "name a tag"),
        (("push", "mine", "other.example/x:1"), 3, "no registry of the platform settings serves"),
        (("push", "mine", "no reference"), 1, "expected HOST/REPOSITORY:TAG"),
        (("pull", "{own}/nothing:1"), 3, "the registry has no"),
        (("pull", "{own}/nothing"), 1, "name a tag or a digest"),
        (("fork", "{own}/nothing:1", "/tmp/sources-never"), 3, "the registry has no"),
    ],
)
def test_what_cannot_be_done_says_what_to_do(registry, capsys, words, code, said):
    own = f"{registry.host}/{registry.folder}"

    assert typed(*(word.format(own=own) for word in words)) == code
    assert said in capsys.readouterr().err


def test_a_registry_that_is_away_is_unavailable(registry, settings, capsys):
    text = registry.settings_text(url="http://127.0.0.1:9")
    settings.PLATFORM_SETTINGS_FILE.write_text(text)

    assert typed("pull", f"127.0.0.1:9/{registry.folder}/mine:1") == 6
    assert typed("push", "mine", f"127.0.0.1:9/{registry.folder}/mine:1") == 6
    assert "registry_unreachable" in capsys.readouterr().err
