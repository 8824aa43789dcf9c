"""examples/ci/launch.sh against a server that answers as a test wants it to."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from tests.support.http_threads import serve_http
from tests.support.parts import give_up
from tests.support.processes import ROOT

pytestmark = pytest.mark.slow
SCRIPT = ROOT / "examples" / "ci" / "launch.sh"
ID_TOKEN, SESSION = "eyJ.the-job.s1gned", "pci_the-session"
RUN: dict[str, Any] = {
    "id": "run-0123456789ab",
    "suiteTitle": "Shop",
    "status": "Healthy",
    "sentence": "2 healthy",
    "duration": "00:03",
    "profile": "",
    "artifacts": [],
    "suite": {"suiteStar": 'a = 1\ntest.run("check", a)\n'},
    "verdict": {"sentence": "2 healthy", "steps": [], "moreSteps": 0, "healthySteps": 2},
}
FAILED: dict[str, Any] = RUN | {
    "status": "Failed",
    "reason": "step_failed",
    "sentence": "check failed\n::set-output name=x::y",
    "verdict": {
        "steps": [
            {
                "stepId": "check",
                "sentence": "check exited with code 4: 100%",
                "mayFail": False,
                "causes": ["a, b: c"],
                "cases": [{"name": "adds", "classname": "", "message": "1 != 2"}],
                "lines": [{"number": 1, "text": "::add-path::/tmp"}, {"number": 2, "text": "```"}],
            },
            {
                "stepId": "optional",
                "sentence": "optional failed",
                "mayFail": True,
                "causes": [],
                "cases": [],
                "lines": [],
            },
        ]
    },
}
REFUSED = {"code": "ci_refused", "detail": "no trust rule lets this CI job in"}


def steps(*reasons: str) -> list[dict[str, Any]]:
    """Failed steps with these reasons, beside a healthy one and one that may fail."""
    failed: dict[str, Any] = {"status": "failed", "continueOnFailure": False}
    others: list[dict[str, Any]] = [
        {"status": "healthy"},
        failed | {"continueOnFailure": True, "reason": "timeout"},
    ]
    return [*others, *(failed | {"reason": reason} for reason in reasons)]


@dataclass
class ScriptedServer:
    """Answers a route with the next of its answers, and with the last one from then on."""

    url: str
    answers: dict[str, list[tuple[int, Any]]] = field(default_factory=dict)
    heard: list[tuple[str, dict[str, str], bytes]] = field(default_factory=list)

    def answer(self, what: str, headers: dict[str, str], body: bytes) -> tuple[int, Any]:
        self.heard.append((what, headers, body))
        known = self.answers[re.sub(r"\?.*", "", what)]
        return known.pop(0) if len(known) > 1 else known[0]

    def bodies(self, what: str) -> list[Any]:
        return [json.loads(body) for asked, _, body in self.heard if asked == what]


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        scripted: ScriptedServer = self.server.scripted  # type: ignore[attr-defined]
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        names = {name.lower(): value for name, value in self.headers.items()}
        status, document = scripted.answer(f"{self.command} {self.path}", names, body)
        content = document.encode() if isinstance(document, str) else json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def do_POST(self) -> None:
        self.do_GET()

    def log_message(self, *_: object) -> None:
        """Nothing: a test reads what was asked."""


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    for program in ("jq", "curl"):
        if not shutil.which(program):
            give_up(f"needs the program {program}")
    session = {"token": SESSION, "launchedBy": "github: acme/shop", "rule": "main"}
    run = f"/api/v1/executions/{RUN['id']}"
    with serve_http(_Handler) as listening:
        made = ScriptedServer(f"http://127.0.0.1:{listening.server_port}")
        made.answers = {
            "GET /id": [(200, {"value": ID_TOKEN})],
            "POST /api/v1/auth/ci": [(201, session)],
            "POST /api/v1/executions": [(201, RUN)],
            f"GET {run}": [(200, RUN | {"status": "Queued"}), (200, RUN)],
            f"GET {run}/junit": [(200, "<testsuites/>")],
            f"GET {run}/artifacts/archive": [(200, "PK")],
            "POST /api/v1/auth/sign-out": [(200, {})],
        }
        listening.scripted = made  # type: ignore[attr-defined]
        yield made


@dataclass
class GitHubJob:
    """A job of GitHub Actions; `code` and `said` are of its last call."""

    folder: Path
    server: ScriptedServer
    code: int = -1
    said: str = ""

    def run(self, **changes: str) -> GitHubJob:
        known = {
            "PATH": os.environ["PATH"],
            "TMPDIR": str(self.folder),
            "GITHUB_ACTIONS": "true",
            "GITHUB_RUN_ID": "7",
            "GITHUB_STEP_SUMMARY": str(self.folder / "summary.md"),
            "GITHUB_OUTPUT": str(self.folder / "output"),
            "ACTIONS_ID_TOKEN_REQUEST_URL": f"{self.server.url}/id?api=2",
            "ACTIONS_ID_TOKEN_REQUEST_TOKEN": "the-request-token",
            "PARTITA_SERVER": self.server.url,
            "PARTITA_SUITE": "shop",
            "PARTITA_PAUSE_S": "0.05",
        }
        environment = {name: value for name, value in (known | changes).items() if value}
        done = subprocess.run(
            ["sh", str(SCRIPT)], env=environment, cwd=self.folder,
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        self.code, self.said = done.returncode, done.stdout + done.stderr
        return self

    def read(self, name: str) -> str:
        return (self.folder / name).read_text()

    @property
    def annotations(self) -> list[str]:
        return [line for line in self.said.splitlines() if line.startswith("::error")]


@pytest.fixture
def job(tmp_path: Path, server: ScriptedServer) -> GitHubJob:
    return GitHubJob(tmp_path, server)


def answer_run(server: ScriptedServer, *answers: tuple[int, Any]) -> None:
    server.answers[f"GET /api/v1/executions/{RUN['id']}"] = list(answers)


def test_a_green_run_ends_with_0_and_leaves_results_and_a_summary(job, server):
    assert job.run(GITHUB_SHA="9f2b", GITHUB_REF_NAME="main", GITHUB_ACTOR="ada").code == 0, (
        job.said
    )

    assert job.read("junit.xml") == "<testsuites/>"
    assert "✅ Shop: Healthy" in job.read("summary.md")
    assert dict(line.split("=", 1) for line in job.read("output").splitlines()) == {
        "run-id": RUN["id"],
        "run-url": f"{server.url}/executions/{RUN['id']}",
        "status": "Healthy",
    }
    assert server.bodies("POST /api/v1/auth/ci") == [{"token": ID_TOKEN}]
    assert server.bodies("POST /api/v1/executions") == [
        {"suiteId": "shop", "trigger": "CI", "author": "ada", "branch": "main", "commit": "9f2b"}
    ]
    assert not job.annotations
    assert not (job.folder / "partita-artifacts.zip").exists()


def test_tokens_are_sent_masked_and_never_shown(job, server):
    job.run()

    asked = {what.partition("?")[0]: headers for what, headers, _ in server.heard}
    assert asked["GET /id"]["authorization"] == "Bearer the-request-token"
    assert "authorization" not in asked["POST /api/v1/auth/ci"]
    assert asked["POST /api/v1/executions"]["authorization"] == f"Bearer {SESSION}"
    audience = next(what for what, _, _ in server.heard if what.startswith("GET /id"))
    assert (
        audience == f"GET /id?api=2&audience={server.url.replace(':', '%3A').replace('/', '%2F')}"
    )
    shown = [line for line in job.said.splitlines() if not line.startswith("::add-mask::")]
    for secret in (ID_TOKEN, SESSION, "the-request-token"):
        assert secret not in "\n".join(shown)
    assert f"::add-mask::{ID_TOKEN}" in job.said
    assert f"::add-mask::{SESSION}" in job.said
    assert server.heard[-1][0] == "POST /api/v1/auth/sign-out"
    assert {path.name for path in job.folder.iterdir()} == {"junit.xml", "output", "summary.md"}


def test_a_red_run_ends_with_1_and_annotates_the_line_of_its_step(job, server):
    answer_run(server, (200, FAILED))
    suite = job.folder / "tests" / "shop" / "suite.star"
    suite.parent.mkdir(parents=True)
    suite.touch()

    assert job.run().code == 1, job.said

    assert job.annotations == [
        "::error file=tests/shop/suite.star,line=2,title=check::"
        "check exited with code 4: 100%25%0Aa, b: c%0Aadds: 1 != 2"
    ]
    assert "- `adds`: 1 != 2" in job.read("summary.md")


def test_what_a_run_says_is_no_command_to_github(job, server):
    answer_run(server, (200, FAILED))
    lines = job.run().said.splitlines()

    stop = next(line for line in lines if line.startswith("::stop-commands::"))
    begun, ended = lines.index(stop), lines.index(f"::{stop.rpartition('::')[2]}::")
    assert any("::add-path::/tmp" in line for line in lines[begun:ended])
    assert not any(line.startswith(("::set-output", "::add-path")) for line in lines)


def test_the_artifacts_come_as_one_file_unless_they_are_not_wanted(job, server):
    answer_run(server, (200, RUN | {"artifacts": [{"path": "a"}]}))

    job.run(PARTITA_ARTIFACTS="all.zip")
    assert job.read("all.zip") == "PK"


@pytest.mark.parametrize(
    ("status", "code"),
    [
        ({"status": "Failed", "reason": "step_failed"}, 1),
        ({"status": "Failed", "reason": "step_failed", "steps": steps("exit_nonzero")}, 1),
        ({"status": "Failed", "reason": "step_failed", "steps": steps("agent_lost")}, 3),
        (
            {
                "status": "Failed",
                "reason": "step_failed",
                "steps": steps("node_lost", "dependency_failed"),
            },
            3,
        ),
        (
            {
                "status": "Failed",
                "reason": "step_failed",
                "steps": steps("node_lost", "test_failures"),
            },
            1,
        ),
        ({"status": "Failed", "reason": "internal_error"}, 3),
        ({"status": "Failed", "reason": "backend_unavailable"}, 3),
        ({"status": "Failed", "reason": "run_timeout"}, 3),
        ({"status": "Canceled"}, 3),
    ],
    ids=str,
)
def test_only_failed_steps_are_the_fault_of_the_code(job, server, status, code):
    answer_run(server, (200, RUN | status))

    assert job.run().code == code, job.said


@pytest.mark.parametrize(
    ("route", "answers", "code", "words"),
    [
        ("POST /api/v1/auth/ci", [(403, REFUSED)], 3, "(403): no trust rule lets this CI job in"),
        ("POST /api/v1/executions", [(503, {"detail": "busy"}), (201, RUN)], 0, "Healthy"),
        ("POST /api/v1/executions", [(503, {"detail": "busy"})], 3, "(503): busy"),
        ("POST /api/v1/executions", [(404, {"detail": "no suite"})], 2, "(404): no suite"),
        ("POST /api/v1/executions", [(403, {"detail": "not this"})], 3, "(403): not this"),
        ("GET /id", [(403, {})], 3, "GitHub gave this job no OIDC token"),
    ],
    ids=str,
)
def test_a_refusal_is_told_in_the_servers_words(job, server, route, answers, code, words):
    server.answers[route] = answers

    job.run(PARTITA_PATIENCE_S="1")

    assert (job.code, words in job.said) == (code, True), job.said
    if code:
        assert "<error message=" in job.read("junit.xml")


def test_a_server_that_is_away_for_a_moment_is_waited_for(job, server):
    answer_run(server, (502, "bad gateway"), (500, {}), (429, {}), (200, RUN))

    assert job.run().code == 0, job.said


def test_an_absence_that_lasts_says_that_the_run_goes_on(job, server):
    answer_run(server, (502, "bad gateway"))

    assert job.run(PARTITA_PATIENCE_S="1").code == 3
    assert f"The run goes on: {server.url}/executions/{RUN['id']}" in job.said


def test_a_session_that_ends_is_renewed_where_the_job_may_ask_for_a_token(job, server):
    answer_run(server, (401, {"detail": "expired"}), (200, RUN))
    assert job.run().code == 0, job.said
    assert len(server.bodies("POST /api/v1/auth/ci")) == 2

    answer_run(server, (401, {"detail": "expired"}), (200, RUN))
    job.run(GITHUB_ACTIONS="", PARTITA_ID_TOKEN=ID_TOKEN)
    assert (job.code, "The run goes on" in job.said) == (3, True), job.said


def test_results_that_cannot_be_fetched_are_said_in_the_file(job, server):
    server.answers[f"GET /api/v1/executions/{RUN['id']}/junit"] = [(503, {})]

    assert job.run().code == 0, job.said
    assert "the results could not be fetched (503)" in job.read("junit.xml")


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"GITHUB_RUN_ATTEMPT": "2", "GITHUB_JOB": "shop"}, "github-7-2-shop-shop"),
        ({"GITHUB_ACTIONS": "", "PARTITA_ID_TOKEN": "x", "CI_JOB_ID": "5"}, "gitlab-5-shop"),
        ({"PARTITA_KEY": "mine"}, "mine"),
        ({"GITHUB_JOB": "ä b"}, "github-7-1----b-shop"),
    ],
    ids=str,
)
def test_the_same_job_and_attempt_have_one_key(job, server, changes, key):
    job.run(**changes)

    launched = [headers for what, headers, _ in server.heard if what == "POST /api/v1/executions"]
    assert launched[0]["idempotency-key"] == key
    others = [h for what, h, _ in server.heard if not what.endswith("executions")]
    assert not any("idempotency-key" in headers for headers in others)


def test_a_token_of_partita_is_used_as_it_is_and_not_ended(job, server):
    assert job.run(PARTITA_TOKEN="pat_mine").code == 0, job.said

    assert "POST /api/v1/auth/ci" not in {what for what, _, _ in server.heard}
    assert "POST /api/v1/auth/sign-out" not in {what for what, _, _ in server.heard}
    assert "pat_mine" not in job.said
