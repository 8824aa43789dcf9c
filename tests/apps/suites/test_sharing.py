"""`suite push`, `pull` and `fork` with a real registry (reference: control-plane 5.1, 5.2)."""

from __future__ import annotations

import json

import pytest
from django.core.management import execute_from_command_line

from apps.suites import api
from tests.support.registry_suites import TestRegistry

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
    with pytest.raises(SystemExit) as ended:
        execute_from_command_line(["manage.py", "suite", *words])
    return int(ended.value.code or 0)


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


def test_equal_files_have_equal_digests(registry, capsys):
    digests = []
    for tag in ("1", "2"):
        assert typed("push", "mine", f"{registry.repository('mine')}:{tag}", "-o", "json") == 0
        digests.append(json.loads(capsys.readouterr().out)["contentDigest"])
    assert digests[0] == digests[1]


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
    assert "warning: mine (mine) is no package of a registry" in said

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
