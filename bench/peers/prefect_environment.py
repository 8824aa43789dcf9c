"""The virtual environment of the Prefect peer, made on first use.

It does not fit beside our stack, and needs an older FastAPI than it says.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from bench.stand import ROOT

FOLDER = ROOT / ".cache" / "bench-prefect"


class NoPrefect(Exception):
    """It cannot be installed here; the message says why."""


def prefect_python() -> Path:
    """The interpreter that has Prefect 3. Raises NoPrefect."""
    python = FOLDER / "bin" / "python"
    if not (FOLDER / "installed").exists():
        uv = str(Path(sys.executable).parent / "uv")
        _run([uv, "venv", "-q", "--clear", "--python", sys.executable, str(FOLDER)])
        _run(
            [uv, "pip", "install", "-q", "--python", str(python), "prefect>=3,<4", "fastapi<0.120"]
        )
        (FOLDER / "installed").touch()
    return python


def prefect_settings(home: Path) -> dict[str, str]:
    """Its server keeps everything below `home`, and calls nobody."""
    return {
        **{name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ},
        "PREFECT_HOME": str(home),
        "PREFECT_LOGGING_LEVEL": "WARNING",
        "PREFECT_LOGGING_LOGGERS_PREFECT_TASK_RUNS_LEVEL": "INFO",  # one line a step, like ours
        "PREFECT_LOGGING_TO_API_ENABLED": "true",
        "PREFECT_SERVER_ALLOW_EPHEMERAL_MODE": "true",
        "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "120",  # the first start takes long
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "DO_NOT_TRACK": "1",
    }


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NoPrefect(done.stderr.strip().splitlines()[-1] if done.stderr else command[1])
