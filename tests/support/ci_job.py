"""A job of CI that runs `partita run launch --ci`, and a server that answers as a test wants."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import yaml

from tests.support.http_threads import serve_http
from tests.support.processes import ROOT

EXAMPLES = ROOT / "examples" / "ci"
PROGRAM = (sys.executable, "-m", "partita_client", "run", "launch")
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


def gitlab_steps() -> list[str]:
    """Return the commands of the example for GitLab, in their order."""
    job = yaml.safe_load((EXAMPLES / "gitlab-ci.yml").read_text())["partita"]
    return [*job["before_script"], *job["script"]]


def jenkins_steps() -> list[str]:
    """Return the commands of the example for Jenkins, in their order."""
    return re.findall(r"^\s*sh '(.+)'$", (EXAMPLES / "Jenkinsfile").read_text(), re.M)


@dataclass(frozen=True)
class Cut:
    """An answer that ends before its last byte."""

    document: Any


@dataclass(frozen=True)
class Late:
    """An answer that begins after a while."""

    document: Any
    after_s: float


@dataclass(frozen=True)
class Trickle:
    """An answer that comes letter by letter."""

    document: Any


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
    protocol_version = "HTTP/1.1"  # as servers and proxies keep connections
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        scripted: ScriptedServer = self.server.scripted  # type: ignore[attr-defined]
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        names = {name.lower(): value for name, value in self.headers.items()}
        status, document = scripted.answer(f"{self.command} {self.path}", names, body)
        self.close_connection = self.close_connection or isinstance(document, Cut)
        if isinstance(document, Late):
            time.sleep(document.after_s)
        whole = document.document if isinstance(document, Cut | Late | Trickle) else document
        content = whole.encode() if isinstance(whole, str) else json.dumps(whole).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content) + isinstance(document, Cut)))
        self.end_headers()
        if isinstance(document, Trickle):
            for number in range(len(content)):
                self.wfile.write(content[number : number + 1])
                time.sleep(0.1)
        else:
            self.wfile.write(content)

    def do_POST(self) -> None:
        self.do_GET()

    def log_message(self, *_: object) -> None:
        """Nothing: a test reads what was asked."""


@contextmanager
def scripted_server() -> Iterator[ScriptedServer]:
    """Serve a run that is queued and then healthy; a test gives a route other answers."""
    sessions = [
        (201, {"token": token, "launchedBy": "github: acme/shop", "rule": "main"})
        for token in (SESSION, *(f"{SESSION}-{number}" for number in range(2, 9)))
    ]
    run = f"/api/v1/executions/{RUN['id']}"
    with serve_http(_Handler) as listening:
        made = ScriptedServer(f"http://127.0.0.1:{listening.server_port}")
        made.answers = {
            "GET /id": [(200, {"value": ID_TOKEN})],
            "POST /api/v1/auth/ci": sessions,
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

    @property
    def environment(self) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(ROOT),
            "HOME": str(self.folder / "home"),
            "TMPDIR": str(self.folder),
            "GITHUB_ACTIONS": "true",
            "GITHUB_RUN_ID": "7",
            "GITHUB_STEP_SUMMARY": str(self.folder / "summary.md"),
            "GITHUB_OUTPUT": str(self.folder / "output"),
            "ACTIONS_ID_TOKEN_REQUEST_URL": f"{self.server.url}/id?api=2",
            "ACTIONS_ID_TOKEN_REQUEST_TOKEN": "the-request-token",
            "PARTITA_URL": self.server.url,
        }

    def run(self, *options: str, suite: str = "shop", **changes: str) -> GitHubJob:
        known = self.environment | changes
        environment = {name: value for name, value in known.items() if value}
        return self._run(self.words(*options, suite=suite), environment)

    def _run(self, words: list[str], environment: dict[str, str]) -> GitHubJob:
        done = subprocess.run(
            words, env=environment, cwd=self.folder,
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        self.code, self.said = done.returncode, done.stdout + done.stderr
        return self

    def run_plain(self, *words: str) -> GitHubJob:
        """Run `partita run launch` without `--ci`."""
        return self._run([*PROGRAM, *words], self.environment)

    def words(self, *options: str, suite: str = "shop") -> list[str]:
        return [*PROGRAM, "--ci", *options, "--", suite]

    def run_python(self, before: str) -> GitHubJob:
        """Run the job in a process in which something else was done before."""
        program = "; from partita_client.__main__ import main; main()"
        script = f"import sys\n{before}\nsys.argv[1:] = {self.words()[3:]}{program}"
        return self._run([sys.executable, "-c", script], self.environment)

    def read(self, name: str) -> str:
        return (self.folder / name).read_text()

    @property
    def annotations(self) -> list[str]:
        return [line for line in self.said.splitlines() if line.startswith("::error")]


def problem(status: int, detail: str, code: str = "refused") -> tuple[int, Any]:
    return status, {"code": code, "detail": detail}


def answer_run(server: ScriptedServer, *answers: tuple[int, Any]) -> None:
    server.answers[f"GET /api/v1/executions/{RUN['id']}"] = list(answers)
