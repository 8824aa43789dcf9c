"""Every command of ours is found, whatever settings of ours are exported."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from manage import settings_module
from tests.support.processes import ROOT

COMMANDS = sorted(
    path.stem
    for part in ("apps", "sync_stack")
    for path in (ROOT / part).glob("*/management/commands/[a-z]*.py")
)


@pytest.mark.parametrize(
    ("command", "given"), [("run_gateway", "sync"), ("sync", "gateway"), ("up", "sync")]
)
def test_settings_that_are_exported_hide_no_command(command: str, given: str, tmp_path: Path):
    exported = {"DJANGO_SETTINGS_MODULE": f"platform_site.settings.{given}"}
    variables = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "DATA_DIR": str(tmp_path)}

    done = subprocess.run(
        [sys.executable, ROOT / "manage.py", command, "--help"],
        env=variables | exported,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert f"partita {command}" in done.stdout


@pytest.mark.parametrize("given", ["gateway", "sync"])
@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_gets_settings_that_have_it(command: str, given: str):
    module = settings_module(command, f"platform_site.settings.{given}")

    assert module == settings_module(command)
