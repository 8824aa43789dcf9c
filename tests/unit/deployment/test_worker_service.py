"""examples/deploy/worker: a remote worker as a systemd service and as a container."""

from __future__ import annotations

import configparser
import getpass
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from kernel.durations import parse_duration_ms
from tests.support.processes import ROOT

FOLDER = ROOT / "examples" / "deploy" / "worker"
SPARE_S = 30
CANCELS = "AGENT_DRAIN_TIMEOUT"


def read_settings() -> dict[str, str]:
    lines = (FOLDER / "worker.env").read_text().splitlines()
    pairs = [line.partition("=") for line in lines if not line.startswith("#")]
    return {name: value for name, _, value in pairs}


def read_unit() -> configparser.SectionProxy:
    unit = configparser.RawConfigParser(strict=False)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read(FOLDER / "partita-worker.service")
    return unit["Service"]


def read_container() -> dict[str, Any]:
    service: dict[str, Any] = yaml.safe_load((FOLDER / "compose.yaml").read_text())["services"]
    found: dict[str, Any] = service["worker"]
    return found


def test_each_setting_of_a_worker_is_known() -> None:
    source = (ROOT / "platform_site" / "settings" / "base.py").read_text()

    unknown = [name for name in read_settings() if f'"{name}"' not in source]

    assert read_settings()
    assert not unknown


def test_a_stop_waits_as_long_as_the_worker_does() -> None:
    drain_s = parse_duration_ms(read_settings()[CANCELS]) / 1000

    assert int(read_unit()["TimeoutStopSec"]) == drain_s + SPARE_S
    assert parse_duration_ms(read_container()["stop_grace_period"]) / 1000 == drain_s + SPARE_S


def test_the_secret_is_read_from_a_file() -> None:
    variables = [*read_settings(), *read_container()["environment"]]

    assert "AGENT_SHARED_SECRET" not in variables
    assert "AGENT_SHARED_SECRET_FILE" in variables


def test_a_container_has_no_right_but_the_engine_socket() -> None:
    container = read_container()

    assert container["read_only"] is True
    assert container["cap_drop"] == ["ALL"]
    assert container["security_opt"] == ["no-new-privileges"]
    assert [each["target"] for each in container["volumes"]] == ["/data", "/var/run/docker.sock"]


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="needs systemd-analyze")
def test_systemd_finds_nothing_wrong_with_the_unit(tmp_path: Path) -> None:
    text = (FOLDER / "partita-worker.service").read_text()
    here = text.replace("/opt/partita/", f"{ROOT}/").replace("User=partita", _me())
    (tmp_path / "partita-worker.service").write_text(here)

    command = ["systemd-analyze", "verify", "--man=no", str(tmp_path / "partita-worker.service")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    own = [line for line in done.stderr.splitlines() if "partita-worker" in line]
    assert (done.returncode, own) == (0, []), done.stderr


def _me() -> str:
    return f"User={getpass.getuser()}"
