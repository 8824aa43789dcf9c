"""The mock servers of others: installed on first use, and the commands that start them."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Final

from bench import mock_api
from bench.peers.environment import NoPeer
from bench.stand import ROOT

WIREMOCK: Final = "3.13.2"
PRISM: Final = "5.14.2"
MOCKOON: Final = "9.9.0"
# Microcks' server is no artifact of Maven Central, and its image is on no registry reached here.
_COPY: Final = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy"
_CACHE: Final = ROOT / ".cache"


def wiremock(folder: Path, port: int, *, is_lean: bool) -> list[str]:
    """Serve the mappings in `folder`: as it starts by itself, or without journal and log."""
    lean = ["--no-request-journal", "--disable-request-logging", "--disable-gzip"]
    return [
        "java", "-jar", str(_wiremock_jar()), "--port", str(port),
        "--root-dir", str(folder), "--bind-address", "127.0.0.1", "--disable-banner",
        *(lean if is_lean else ()),
    ]  # fmt: skip


def prism(folder: Path, port: int, *, is_checked: bool = False) -> list[str]:
    program = _npm("@stoplight/prism-cli", PRISM, "dist/index.js")
    document = _openapi(folder, is_checked=is_checked)
    return [
        "node", str(program), "mock", str(document), "--host", "127.0.0.1",
        "--port", str(port), "--verboseLevel", "silent",
    ]  # fmt: skip


def mockoon(folder: Path, port: int) -> list[str]:
    program = _npm("@mockoon/cli", MOCKOON, "bin/run.js")
    return [
        "node", str(program), "start", "--data", str(_openapi(folder)), "--hostname", "127.0.0.1",
        "--port", str(port), "--disable-log-to-file", "--disable-admin-api",
    ]  # fmt: skip


def _openapi(folder: Path, *, is_checked: bool = False) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "openapi.json"
    path.write_text(json.dumps(mock_api.openapi(20, is_checked=is_checked)))
    return path


def _wiremock_jar() -> Path:
    folder = _CACHE / "bench-wiremock"
    jar = folder / f"wiremock-standalone-{WIREMOCK}.jar"
    if not jar.exists():
        _need("java", "mvn")
        artifact = f"org.wiremock:wiremock-standalone:{WIREMOCK}"
        _run(["mvn", "-q", "-B", _COPY, f"-Dartifact={artifact}", f"-DoutputDirectory={folder}"])
    return jar


def _npm(name: str, version: str, program: str) -> Path:
    folder = _CACHE / f"bench-{name.strip('@').replace('/', '-')}"
    path = folder / "node_modules" / name / program
    if not path.exists():
        _need("node", "npm")
        folder.mkdir(parents=True, exist_ok=True)
        quiet = ["--no-audit", "--no-fund", "--silent"]
        _run(["npm", "install", *quiet, "--prefix", str(folder), f"{name}@{version}"])
    return path


def _need(*programs: str) -> None:
    if missing := [each for each in programs if shutil.which(each) is None]:
        raise NoPeer(f"no {' and no '.join(missing)} here")


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise NoPeer(said[-1] if said else command[0])
