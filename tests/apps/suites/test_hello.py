"""The first suite a newcomer sees: it resolves, and its scripts do what they say."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from apps.profiles.api import select_profile
from apps.suites import api, selectors

HELLO = Path(__file__).resolve().parents[3] / "examples" / "oci-suites" / "hello"
SHELLS = [shell for shell in ("dash", "busybox") if shutil.which(shell)] or ["sh"]


@pytest.fixture
def hello(settings, library):
    settings.SUITES_DIR = HELLO.parent
    return selectors.resolve("hello")


def test_hello_is_one_service_one_task_and_two_tests(hello):
    assert [(node["id"], node["kind"], node["level"]) for node in hello.topology] == [
        ("greeter", "service", 0),
        ("letters", "task", 1),
        ("everyone-greeted", "test", 2),
        ("friendly", "test", 2),
    ]
    assert {node["image"] for node in hello.topology} == {"busybox:1.36"}
    assert hello.print_lines == ("inviting Ada, Grace, Alan",)
    assert hello.definition["warnings"] == []


def test_the_verbose_profile_builds_on_the_default_one(hello):
    profiles = api.find_suite("hello").profiles
    chosen = select_profile(profiles, "verbose", suite_id="hello")

    resolved = selectors.resolve("hello", profile_env=chosen.env)

    assert chosen.env["GREETING"] == "Hallo"
    assert chosen.services == {"letters": {"VERBOSE": "true"}}
    assert resolved.print_lines == ("inviting Ada, Grace, Alan, Edsger, Barbara",)


@pytest.fixture(params=SHELLS)
def run(request, tmp_path):
    """Runs a step's script in the shell, as the process runtime would."""
    shutil.copytree(HELLO, tmp_path / "work")
    (tmp_path / "artifacts").mkdir()
    shell = [request.param] if request.param != "busybox" else ["busybox", "sh"]
    base = {
        "PATH": os.environ["PATH"],
        "PARTITA_WORKSPACE_DIR": str(tmp_path / "work"),
        "PARTITA_ARTIFACTS_DIR": str(tmp_path / "artifacts"),
    }

    def start(node, **env: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*shell, node["file"]],
            cwd=tmp_path / "work",
            env=base | node.get("env", {}) | env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    return start


@pytest.mark.parametrize(("greeting", "kind"), [("Hello", True), ("Go away", False)])
def test_hello_greets_everyone_and_notices_when_it_is_rude(hello, run, tmp_path, greeting, kind):
    greeter, letters, everyone, friendly = hello.topology
    service = run(greeter, GREETING=greeting)
    try:
        assert greeter["ready"]["log"] in service.stdout.readline()
        task = run(letters, GREETING=greeting)
        assert "Alan has an answer" in task.communicate(timeout=180)[0]
        first, second = run(everyone), run(friendly)
        said, _ = first.communicate(timeout=180)
        second.communicate(timeout=180)
    finally:
        os.killpg(service.pid, signal.SIGKILL)
        service.communicate()

    assert (task.returncode, first.returncode) == (0, 0)
    assert everyone["evaluation"]["expectLogs"][0] in said
    assert (second.returncode == 0) is kind
    report = ET.parse(tmp_path / "artifacts" / "friendly.xml").getroot()
    assert (report.get("tests"), report.get("failures")) == ("3", "0" if kind else "3")
    assert len(report.findall("testcase")) == 3
