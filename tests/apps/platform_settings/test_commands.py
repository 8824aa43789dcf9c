"""`manage.py settings …`: exit codes, masked output, conflicts."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.core.management import call_command

from apps.accounts.api import operator
from apps.operations.api import ExitCode
from apps.platform_settings.api import get_registry, replace_settings, settings_document
from tests.apps.platform_settings.documents import SECRETS, admin_client, document

OTHER = "mode: remote\nagents: [{agentId: edge, name: Edge, type: remote-agent}]\n"


@pytest.fixture(autouse=True)
def _stored(settings: Any, tmp_path: Path, transactional_db: None) -> None:
    settings.PLATFORM_SETTINGS_FILE = tmp_path / "configuration.yaml"
    admin_client()
    replace_settings(operator(), document())


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Any:
    def call(*words: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            call_command("settings", *words)
        said = capsys.readouterr()
        return int(ended.value.code or 0), said.out, said.err

    return call


@pytest.fixture
def file(tmp_path: Path) -> Path:
    made = tmp_path / "new.yaml"
    made.write_text(OTHER)
    return made


@pytest.mark.parametrize("form", ["table", "json", "yaml"])
def test_show_masks_every_secret(run: Any, form: str) -> None:
    """Invariant 19."""
    code, out, _ = run("show", "-o", form)

    assert code == ExitCode.OK
    assert not [secret for secret in SECRETS if secret in out]
    if form != "table":
        shown = json.loads(out) if form == "json" else yaml.safe_load(out)
        assert shown == settings_document(operator())
    else:
        assert "edge" in out
        assert "http://localhost:5000" in out


def test_what_show_prints_can_be_applied_again(run: Any, tmp_path: Path) -> None:
    again = tmp_path / "again.yaml"
    again.write_text(run("show", "-o", "yaml")[1])

    assert run("diff", str(again)) == (ExitCode.OK, "nothing differs\n", "")
    assert run("apply", str(again))[0] == ExitCode.OK
    assert get_registry("zot").secret == SECRETS[0]


def test_a_dry_run_shows_the_masked_difference_and_changes_nothing(run: Any, file: Path) -> None:
    before = settings_document(operator())

    code, out, _ = run("apply", str(file), "--dry-run", "-o", "json")

    assert code == ExitCode.OK
    keys = [each["key"] for each in json.loads(out)["changes"]]
    assert "mode" in keys
    assert "registries[zot].secret" in keys
    assert not [secret for secret in SECRETS if secret in out]
    assert settings_document(operator()) == before
    assert run("diff", str(file))[0] == ExitCode.ERROR


def test_apply_replaces_the_settings(run: Any, file: Path, monkeypatch: Any) -> None:
    code, out, _ = run("apply", str(file))

    assert (code, settings_document(operator())["mode"]) == (ExitCode.OK, "remote")
    assert "hybrid" in out
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(OTHER.encode())))
    assert run("diff", "-")[0] == ExitCode.OK


def test_an_invalid_file_is_refused_with_its_place(run: Any, file: Path) -> None:
    file.write_text(OTHER.replace("remote", "cloud", 1))

    code, _, error = run("apply", str(file))

    assert code == ExitCode.ERROR
    assert "new.yaml:1:7" in error
    assert run("apply", str(file.with_name("none.yaml")))[0] == ExitCode.ERROR


def test_a_mask_of_nothing_is_refused_with_its_place(run: Any, file: Path) -> None:
    replace_settings(operator(), document(notifications={}))
    file.write_text(f'{OTHER}notifications:\n  smtp: {{password: "********"}}\n')

    for verb in ("apply", "diff"):
        code, _, error = run(verb, str(file))
        assert code == ExitCode.ERROR
        assert f"new.yaml:{len(OTHER.splitlines()) + 2}:20: password: there is no" in error


def test_a_conflict_has_the_exit_code_5(run: Any, file: Path) -> None:
    code, _, error = run("apply", str(file), "--if-match", '"old-tag"')

    assert code == ExitCode.CONFLICT
    assert "changed since" in error


def test_registries_that_cannot_be_reached_are_reported(run: Any) -> None:
    changed = document()
    changed["registries"][0]["registryUrl"] = "http://127.0.0.1:9"
    replace_settings(operator(), changed)

    for verb in ("test", "sync"):
        code, out, _ = run("registries", verb, "-o", "json")
        assert code == ExitCode.UNAVAILABLE
        assert json.loads(out)["registries"][0]["registryId"] == "zot"
        assert SECRETS[0] not in out
    assert run("registries", "test", "other")[0] == ExitCode.NOT_FOUND
    assert "zot" in run("registries", "sync", "zot")[1]
