"""`suite new`: suites that validate, lint clean and have the style from their first moment."""

from __future__ import annotations

import json

import pytest

from apps.suites import api
from apps.suites.authoring import suite_files
from tests.apps.suites.test_imports import typed


@pytest.mark.parametrize("template", ["contract", "empty", "web", "worker"])
def test_a_new_suite_has_no_diagnostics(template, workspace, capsys):
    folder = workspace.root / "my-first"

    assert typed("new", str(folder), "--template", template) == 0
    assert "run launch my-first --watch" in capsys.readouterr().out
    assert [typed("validate"), typed("lint", "--strict"), typed("fmt", "--check")] == [0, 0, 0]
    definition = api.get_definition("my-first")
    assert definition["title"] == "My First"
    assert "my-first" in (folder / "README.md").read_text()


def test_the_names_of_the_templates():
    assert suite_files.starters() == ["contract", "empty", "web", "worker"]


def test_a_folder_with_files_is_left_alone(workspace, capsys):
    folder = workspace.add("s", 'task.run("t", image = "a:1")')

    assert typed("new", str(folder)) != 0
    assert "suite_exists" in capsys.readouterr().err
    assert [path.name for path in folder.iterdir()] == ["suite.star"]
    assert typed("new", str(workspace.root / "not an id")) != 0
    assert not (workspace.root / "not an id").exists()


def test_a_new_suite_where_no_command_finds_it_is_to_be_moved(workspace, tmp_path, capsys):
    assert typed("new", str(tmp_path / "a b")) != 0
    assert typed("new", str(tmp_path / "astray")) == 0
    assert f"  mv {tmp_path}/astray {workspace.root}/ " in capsys.readouterr().out

    assert typed("new", str(workspace.root / "found")) == 0
    assert "  mv " not in capsys.readouterr().out


def test_a_new_suite_from_another(workspace, capsys):
    workspace.add("s", 'task.run("t", image = "a:1")')

    assert typed("new", str(workspace.root / "copy"), "--from", "s", "-o", "json") == 0
    assert json.loads(capsys.readouterr().out)["from"] == "s"
    assert api.get_definition("copy")["launchable"]
