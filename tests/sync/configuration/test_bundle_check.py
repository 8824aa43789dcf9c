"""The command that checks a bundle."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from django.core.management import call_command

from tests.support.bundles import SMALL, changed


@pytest.fixture
def check(tmp_path, capsys, monkeypatch):
    for name in ("CONFIG_PATH", "APP_ENV", "BUNDLE_STRICT"):
        monkeypatch.delenv(name, raising=False)

    def run(bundle, *arguments):
        path = tmp_path / "bundle.json"
        path.write_text(json.dumps({"bundle": bundle}, indent=1))
        with pytest.raises(SystemExit) as exit_:
            call_command("sync", "check", str(path), *arguments)
        return exit_.value.code, capsys.readouterr().out

    return run


def test_a_valid_bundle(check):
    code, out = check(SMALL)

    assert code == 0
    assert out.endswith("bundle.json: valid, 0 errors, 0 warnings\n")


def test_warnings_count_only_when_strict(check, monkeypatch):
    bundle = changed(lambda plain: plain.update(monitoring={}))

    assert check(bundle)[0] == 0
    assert check(bundle, "--strict")[0] == 1
    monkeypatch.setenv("BUNDLE_STRICT", "true")
    assert check(bundle)[0] == 1


def test_errors_as_json(check):
    bundle = changed(lambda plain: plain["rules"][0].update(datasource="redi"))
    code, out = check(bundle, "-o", "json")
    answer = json.loads(out)

    assert code == 78
    assert answer["valid"] is False
    (complaint,) = answer["complaints"]
    assert complaint["line"] > 1
    assert {key: complaint[key] for key in ("path", "code", "severity")} == {
        "path": "bundle.rules[0].datasource",
        "code": "unknown_reference",
        "severity": "error",
    }


def test_secrets_are_looked_at_only_when_asked(check, monkeypatch):
    monkeypatch.delenv("NOT_SET_ANYWHERE", raising=False)
    bundle = changed(
        lambda plain: plain["platforms"][0]["github"].update(secret={"env": "NOT_SET_ANYWHERE"})
    )

    assert check(bundle)[0] == 0
    code, out = check(bundle, "--resolve")
    assert code == 78
    assert "NOT_SET_ANYWHERE is not set [unreadable_secret]" in out


def test_production_asks_for_more(check, monkeypatch):
    monkeypatch.setenv("APP_ENV", "prod")
    bundle = changed(lambda plain: plain.update(platforms=[{"github": {}}]))

    code, out = check(bundle)
    assert code == 78
    assert "[production_requirement]" in out


def test_a_wrong_setting_is_one_line_on_stderr(check, capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("BUNDLE_STRICT", "perhaps")
    with pytest.raises(SystemExit) as exit_:
        call_command("sync", "check", str(tmp_path / "any"))

    assert exit_.value.code == 78
    assert capsys.readouterr().err == "BUNDLE_STRICT='perhaps': expected true or false\n"


def test_the_command_needs_no_secret_of_any_process(tmp_path):
    path = tmp_path / "bundle.json"
    path.write_text(json.dumps({"bundle": SMALL}))
    clean = {key: os.environ[key] for key in ("PATH", "HOME") if key in os.environ}
    done = subprocess.run(
        [sys.executable, "manage.py", "sync", "check", str(path)],
        env=clean | {"DB_DRIVER": "sqlite", "DATA_DIR": str(tmp_path), "APP_ENV": "production"},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"{path}: valid, 0 errors, 0 warnings\n"
