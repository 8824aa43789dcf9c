"""Virtual environments of peers that do not fit beside our stack, made on first use."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from bench.stand import ROOT

PREFECT_3 = ("prefect>=3,<4", "fastapi<0.120")  # it needs an older FastAPI than it says
DBOS_2 = ("dbos>=2,<3", "psycopg[binary]")
STOCK_DJANGO = (
    "django>=5.2,<5.3", "djangorestframework>=3.16", "djangorestframework-simplejwt>=5.5",
    "django-cors-headers>=4.9", "django-prometheus>=2.4", "whitenoise>=6.11",
    "psycopg[binary,pool]>=3.2", "uvicorn>=0.38", "uvloop", "httptools",
)  # fmt: skip


class NoPeer(Exception):
    """It cannot be installed here; the message says why."""


def peer_python(name: str, packages: tuple[str, ...]) -> Path:
    """The interpreter of the environment `name`, which has `packages`. Raises NoPeer."""
    folder = ROOT / ".cache" / f"bench-{name}"
    python = folder / "bin" / "python"
    if not (folder / "installed").exists():
        uv = str(Path(sys.executable).parent / "uv")
        _run([uv, "venv", "-q", "--clear", "--python", sys.executable, str(folder)])
        _run([uv, "pip", "install", "-q", "--python", str(python), *packages])
        (folder / "installed").touch()
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
        raise NoPeer(done.stderr.strip().splitlines()[-1] if done.stderr else command[1])
