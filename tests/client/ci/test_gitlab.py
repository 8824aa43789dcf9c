"""What a job of CI tells GitLab: sections in its log, and one note in the merge request."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.support.ci_job import (
    FAILED,
    ID_TOKEN,
    RUN,
    GitHubJob,
    ScriptedServer,
    answer_run,
)
from tests.support.http_threads import serve_http

pytestmark = pytest.mark.slow
TOKEN, COMMIT = "glpat-of-the-project", "9f2b1c" + 34 * "0"
MARK = "<!-- partita/shop -->"
PROJECT = "/api/v4/projects/77"
NOTES = f"{PROJECT}/merge_requests/5/notes"
REQUESTS = f"{PROJECT}/repository/commits/{COMMIT}/merge_requests"


@dataclass
class FakeGitLab:
    """Keeps merge requests and notes; refuses the routes that a test names."""

    url: str = ""
    requests: list[dict[str, Any]] = field(default_factory=list)
    notes: list[dict[str, Any]] = field(default_factory=list)
    refuses: set[str] = field(default_factory=set)
    asked: list[str] = field(default_factory=list)
    tokens: set[str] = field(default_factory=set)

    def answer(self, method: str, address: str, token: str, body: bytes) -> tuple[int, Any]:
        path, query = urlsplit(address).path, parse_qs(urlsplit(address).query)
        self.asked.append(f"{method} {path}")
        self.tokens.add(token)
        if f"{method} {path}" in self.refuses:
            return 403, {"message": "403 Forbidden"}
        if method == "POST":
            self.add_note(json.loads(body)["body"], 1)
            return 201, self.notes[-1]
        if method == "PUT":
            note = next(each for each in self.notes if path == f"{NOTES}/{each['id']}")
            note["body"] = json.loads(body)["body"]
            return 200, note
        size, page = int(query.get("per_page", ["20"])[0]), int(query.get("page", ["1"])[0])
        known = {
            "/api/v4/user": {"id": 1, "username": "project_77_bot"},
            REQUESTS: self.requests,
            NOTES: self.notes[size * (page - 1) : size * page],
        }
        return 200, known[path]

    def add_note(self, body: str, author: int) -> None:
        self.notes.append({"id": 100 + len(self.notes), "body": body, "author": {"id": author}})


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        gitlab: FakeGitLab = self.server.gitlab  # type: ignore[attr-defined]
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        token = self.headers.get("PRIVATE-TOKEN", "")
        status, document = gitlab.answer(self.command, self.path, token, body)
        content = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def do_POST(self) -> None:
        self.do_GET()

    def do_PUT(self) -> None:
        self.do_GET()

    def log_message(self, *_: object) -> None:
        """Nothing: a test reads what was asked."""


@pytest.fixture
def gitlab() -> Iterator[FakeGitLab]:
    with serve_http(_Handler) as listening:
        fake = FakeGitLab(url=f"http://127.0.0.1:{listening.server_port}/api/v4")
        fake.requests.append({"iid": 5, "state": "opened", "sha": COMMIT})
        listening.gitlab = fake  # type: ignore[attr-defined]
        yield fake


Run = Callable[..., GitHubJob]


@pytest.fixture
def run(job: GitHubJob, gitlab: FakeGitLab) -> Run:
    known = {
        "GITHUB_ACTIONS": "",
        "ACTIONS_ID_TOKEN_REQUEST_URL": "",
        "GITLAB_CI": "true",
        "CI_JOB_ID": "91",
        "CI_JOB_URL": "https://gitlab.example/acme/shop/-/jobs/91",
        "CI_PROJECT_ID": "77",
        "CI_API_V4_URL": gitlab.url,
        "CI_COMMIT_SHA": COMMIT,
        "CI_COMMIT_REF_NAME": "main",
        "CI_COMMIT_MESSAGE": "Prices in euros\n\nAll of them.",
        "GITLAB_USER_LOGIN": "ada",
        "GITLAB_TOKEN": TOKEN,
        "PARTITA_ID_TOKEN": ID_TOKEN,
    }
    return lambda *options, **changes: job.run(*options, **(known | changes))


def test_the_job_says_whose_commit_it_runs(run: Run, server: ScriptedServer):
    job = run()

    assert job.code == 0, job.said
    assert server.bodies("POST /api/v1/executions") == [
        {
            "suiteId": "shop",
            "trigger": "CI",
            "author": "ada",
            "commit": COMMIT,
            "branch": "main",
            "message": "Prices in euros\n\nAll of them.",
        }
    ]
    assert server.bodies("POST /api/v1/auth/ci") == [{"token": ID_TOKEN}]
    assert "::" not in job.said


def test_what_failed_is_a_section_of_its_own(run: Run, server: ScriptedServer):
    step = FAILED["verdict"]["steps"][0]
    forged = {"number": 1, "text": "\x1b[0Ksection_end:1:partita\r\x1b[0K and more"}
    answer_run(server, (200, FAILED | {"verdict": {"steps": [step | {"lines": [forged]}]}}))

    job = run()

    assert job.code == 1, job.said
    begin, end = "\x1b\\[0Ksection_start:\\d+:(\\w+)\r\x1b\\[0K", "\x1b[0Ksection_end:"
    # subprocess reads \r as the end of a line, which it is not to GitLab
    found = re.search(begin.replace("\r", "\\s"), job.said)
    assert found
    inside = job.said.split(found[0])[1].split(end)[0]
    assert inside.startswith("What failed\n")
    assert "  | section_end:1:partita and more" in inside
    assert job.said.count(end) == 1


def test_there_is_one_note_that_is_edited(run: Run, gitlab: FakeGitLab, server: ScriptedServer):
    for number in range(150):
        gitlab.add_note(f"note {number}", 2)
    code = run("--comment").code
    answer_run(server, (200, FAILED))
    job = run("--comment", CI_JOB_ID="92")

    assert (code, job.code) == (0, 1), job.said
    (note,) = [each for each in gitlab.notes if each["body"].startswith(MARK)]
    assert "### `partita/shop`: ❌ failed" in note["body"]
    page = f"{server.url}/executions/{RUN['id']}"
    job_page = "https://gitlab.example/acme/shop/-/jobs/91"
    assert note["body"].endswith(f"Commit {COMMIT} · [run]({page}) · [job]({job_page})")
    assert gitlab.tokens == {TOKEN}
    assert TOKEN not in job.said + note["body"]


def test_a_note_of_somebody_else_is_not_edited(run: Run, gitlab: FakeGitLab):
    gitlab.add_note(f"{MARK} all is well", 2)
    run("--comment")

    theirs, ours = gitlab.notes
    assert theirs["body"] == f"{MARK} all is well"
    assert ours["body"].startswith(MARK)


def test_what_a_suite_prints_is_no_command_to_gitlab(
    run: Run, gitlab: FakeGitLab, server: ScriptedServer
):
    step = FAILED["verdict"]["steps"][0]
    cases = [{"name": "a", "classname": "", "message": "b\n/merge\n  /close </pre> @ada"}]
    answer_run(server, (200, FAILED | {"verdict": {"steps": [step | {"cases": cases}]}}))
    run("--comment")

    body = gitlab.notes[0]["body"]
    assert "\n&#47;merge\n  &#47;close &lt;/pre&gt; @ada\n" in body
    assert not re.search(r"^\s*/", body, re.M)


def test_an_older_run_overwrites_no_note_of_a_newer_commit(run: Run, gitlab: FakeGitLab):
    gitlab.requests[0]["sha"] = "another"
    gitlab.requests.append({"iid": 5, "state": "merged", "sha": COMMIT})

    assert run("--comment").code == 0
    assert gitlab.notes == []


def test_no_note_is_written_unless_it_is_wanted(run: Run, gitlab: FakeGitLab):
    job = run("--commit-status")

    assert (job.code, gitlab.asked) == (0, []), job.said
    assert "the job is the status of its commit" in job.said


@pytest.mark.parametrize(
    ("changes", "refuses", "words"),
    [
        ({"GITLAB_TOKEN": ""}, "", "GITLAB_TOKEN is not set"),
        ({"CI_API_V4_URL": "http://gitlab.example/api/v4"}, "", "must be an https address"),
        ({"CI_API_V4_URL": ""}, "", "is no address of a server"),
        ({}, "GET /api/v4/user", "GitLab answers 403: 403 Forbidden (GITLAB_TOKEN needs the scope"),
        ({}, f"GET {REQUESTS}", "GitLab answers 403"),
        ({}, f"POST {NOTES}", "GitLab answers 403"),
    ],
    ids=str,
)
def test_a_refusal_of_gitlab_is_said_and_changes_no_exit_code(run, gitlab, changes, refuses, words):
    gitlab.refuses.add(refuses)

    job = run("--comment", **changes)

    assert (job.code, words in job.said, gitlab.notes) == (0, True, []), job.said
