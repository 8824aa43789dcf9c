"""`python -m examples.sync` as a user runs it: its story, its failures, and what is left behind."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest

from tests.support.parts import give_up
from tests.support.processes import ROOT, until

pytestmark = pytest.mark.slow
PROGRAM = [sys.executable, "-m", "examples.sync"]
STORY = (
    "The store is made",
    "Gateway, orchestrator and watcher are ready",
    "config/app.yaml is pushed to acme/shop",
    "The gateway takes the signed webhook /webhooks/file",
    '202 {"task_id":',
    "The orchestrator executes task",
    "SUCCEEDED completed",
    "The values are in the file production-shop.json",
    "Somebody changes checkout.timeout by hand in the file production-shop.json",
    '"checkout.timeout": "5m"',
    "The watcher logs drift in the file production-shop.json",
    "WARNING drift_detected settings-to-file, changed: ['checkout.timeout']",
    "The drift in the file production-shop.json is healed",
    "The values are back in the file production-shop.json",
    '"checkout.timeout": "30s"',
    "Everything is stopped",
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the demo makes its temporary folder."""
    made = tmp_path / "temporary"
    made.mkdir()
    return made


@contextmanager
def demo(folder: Path, *arguments: str, path: str = "") -> Iterator[subprocess.Popen[str]]:
    environment = {"PATH": path or os.environ["PATH"], "TMPDIR": str(folder)}
    process = subprocess.Popen(
        [*PROGRAM, *arguments], env=environment, cwd=ROOT, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    try:
        yield process
    finally:
        process.terminate()
        process.communicate(timeout=180)


def programs_of(folder: Path) -> list[str]:
    """What runs with its home in the folder of the demo."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):  # it ended meanwhile, or is another user's
            if process.environ().get("HOME", "").startswith(str(folder)):
                found.append(" ".join(process.cmdline()))
    return found


def nothing_is_left(folder: Path) -> bool:
    return not list(folder.iterdir()) and not programs_of(folder)


def only_git(folder: Path) -> str:
    """A PATH with Git, and without Redis."""
    folder.mkdir()
    (folder / "git").symlink_to(shutil.which("git") or "")
    return str(folder)


@pytest.mark.parametrize("with_redis", [True, False])
def test_the_demo_tells_the_whole_story_and_leaves_nothing_behind(with_redis, folder, tmp_path):
    if with_redis and not shutil.which("redis-server"):
        give_up("needs a redis-server program")
    path = "" if with_redis else only_git(tmp_path / "bin")
    with demo(folder, path=path) as process:
        text, _ = process.communicate(timeout=240)
    assert process.returncode == 0, text
    rest = text
    for line in STORY:
        assert line in rest, f"{line!r} is missing, or too early, in\n{text}"
        rest = rest[rest.index(line) :]
    assert len(re.findall(r"^✓ +\d+\.\d\d s  \S", text, re.MULTILINE)) == (17 if with_redis else 10)
    assert ("The values are back in the Redis hash production-shop" in text) is with_redis
    assert ("no redis-server is installed" in text) is not with_redis
    assert nothing_is_left(folder)


def test_a_program_that_fails_ends_the_demo_with_its_last_lines(folder, tmp_path):
    path = only_git(tmp_path / "bin")
    server = tmp_path / "bin" / "redis-server"
    server.write_text("#!/bin/sh\necho no server today\nexit 3\n")
    server.chmod(0o755)
    with demo(folder, path=f"{path}:/usr/bin:/bin") as process:
        text, _ = process.communicate(timeout=180)
    assert process.returncode == 1, text
    assert re.search(r"✗ .* Gateway, orchestrator and watcher are ready", text)
    assert "redis ended with exit code 3" in text
    assert "last lines of redis:\n  no server today" in text
    assert nothing_is_left(folder)


def test_a_step_that_takes_too_long_ends_the_demo(folder):
    with demo(folder, "--limit", "0.01") as process:
        text, _ = process.communicate(timeout=180)
    assert process.returncode == 1, text
    assert "✗" in text
    assert "not within 0.01 s" in text
    assert nothing_is_left(folder)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_stops_everything(number, folder):
    with demo(folder) as process:
        wanted = [f"run_{name}" for name in ("gateway", "orchestrator", "watcher")]
        until(
            lambda: all(any(w in line for line in programs_of(folder)) for w in wanted),
            within_s=60,
        )
        process.send_signal(number)
        text, _ = process.communicate(timeout=180)
    assert process.returncode == 130, text
    assert "Traceback" not in text
    assert nothing_is_left(folder)
