"""What a job of CI tells GitHub: a commit status and one comment in the pull request."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.support.ci_job import FAILED, RUN, GitHubJob, ScriptedServer, answer_run, problem
from tests.support.http_threads import serve_http
from tests.support.processes import until

pytestmark = pytest.mark.slow
TOKEN, COMMIT = "ghs_the-jobs-own", "9f2b1c" + 34 * "0"
BOT = {"login": "github-actions[bot]", "type": "Bot"}
MARKER = "<!-- partita/shop -->"
REPOSITORY = "/repos/acme/shop"
BOTH = ("--commit-status", "--comment")


@dataclass
class FakeGitHub:
    """Keeps statuses, pull requests and comments.

    `refuses`: codes that a route answers in this order, with the last one from then on; 0 is none.
    """

    url: str = ""
    statuses: list[dict[str, Any]] = field(default_factory=list)
    pulls: list[dict[str, Any]] = field(default_factory=list)
    comments: list[dict[str, Any]] = field(default_factory=list)
    refuses: dict[str, list[int]] = field(default_factory=dict)
    user: str = ""
    asked: list[str] = field(default_factory=list)
    tokens: set[str] = field(default_factory=set)

    def answer(self, method: str, address: str, token: str, body: bytes) -> tuple[int, Any]:
        path, query = urlsplit(address).path, parse_qs(urlsplit(address).query)
        self.asked.append(f"{method} {path}")
        self.tokens.add(token)
        codes = self.refuses.get(f"{method} {path}", [0])
        if code := codes.pop(0) if len(codes) > 1 else codes[0]:
            return code, {"message": "Resource not accessible by integration"}
        given = json.loads(body) if body else {}
        return self._write(method, path, given) if given else self._read(path, query)

    def _write(self, method: str, path: str, given: dict[str, Any]) -> tuple[int, Any]:
        if (method, path) == ("POST", f"{REPOSITORY}/statuses/{COMMIT}"):
            if len(given["description"]) > 140:
                return 422, {"message": "description is too long (maximum is 140 characters)"}
            self.statuses.append(given)
            return 201, {}
        if len(given["body"]) > 65536:
            return 422, {"message": "body is too long (maximum is 65536 characters)"}
        if (method, path) == ("POST", f"{REPOSITORY}/issues/5/comments"):
            self.add_comment(given["body"], BOT)
            return 201, {}
        known = {f"{REPOSITORY}/issues/comments/{each['id']}": each for each in self.comments}
        known[path]["body"] = given["body"]
        return 200, {}

    def _read(self, path: str, query: dict[str, list[str]]) -> tuple[int, Any]:
        if path == "/user":
            return (200, {"login": self.user}) if self.user else (403, {"message": "no"})
        if path == f"{REPOSITORY}/issues/5/comments":
            size, page = int(query["per_page"][0]), int(query["page"][0])
            return 200, self.comments[size * (page - 1) : size * page]
        if path == f"{REPOSITORY}/commits/{COMMIT}/pulls":
            return 200, self.pulls
        known = {f"{REPOSITORY}/pulls/{each['number']}": each for each in self.pulls}
        return 200, known[path]

    def add_comment(self, body: str, user: dict[str, str]) -> None:
        self.comments.append({"id": 100 + len(self.comments), "body": body, "user": user})

    @property
    def states(self) -> list[str]:
        return [status["state"] for status in self.statuses]


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        github: FakeGitHub = self.server.github  # type: ignore[attr-defined]
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        status, document = github.answer(
            self.command, self.path, self.headers.get("Authorization", ""), body
        )
        content = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def do_POST(self) -> None:
        self.do_GET()

    def do_PATCH(self) -> None:
        self.do_GET()

    def log_message(self, *_: object) -> None:
        """Nothing: a test reads what was asked."""


@pytest.fixture
def github() -> Iterator[FakeGitHub]:
    with serve_http(_Handler) as listening:
        fake = FakeGitHub(url=f"http://127.0.0.1:{listening.server_port}")
        fake.pulls.append({"number": 5, "state": "open", "head": {"sha": COMMIT}})
        listening.github = fake  # type: ignore[attr-defined]
        yield fake


Run = Callable[..., GitHubJob]


@pytest.fixture
def run(job: GitHubJob, github: FakeGitHub) -> Run:
    """Run the job with a status and a comment, unless its options or `changes` say otherwise."""
    known = {
        "GITHUB_API_URL": github.url,
        "GITHUB_SERVER_URL": "https://github.example",
        "GITHUB_REPOSITORY": "acme/shop",
        "GITHUB_SHA": COMMIT,
        "GITHUB_TOKEN": TOKEN,
    }
    return lambda *options, **changes: job.run(*(options or BOTH), **(known | changes))


def test_a_commit_is_pending_and_then_says_what_came_of_it(run: Run, github: FakeGitHub):
    job = run()

    assert job.code == 0, job.said
    page = f"{job.server.url}/executions/{RUN['id']}"
    assert github.statuses == [
        {
            "state": state,
            "context": "partita/shop",
            "target_url": page,
            "description": description,
        }
        for state, description in (("pending", "the run was launched"), ("success", "2 healthy"))
    ]
    assert github.tokens == {f"Bearer {TOKEN}"}
    assert TOKEN not in job.said + github.comments[0]["body"]


@pytest.mark.parametrize(
    ("answer", "code", "state"),
    [
        ({"status": "Failed", "reason": "step_failed", "sentence": "no"}, 1, "failure"),
        ({"status": "Canceled", "sentence": "no"}, 3, "error"),
        ({"status": "Failed", "reason": "run_timeout"}, 3, "error"),
    ],
    ids=str,
)
def test_a_red_run_is_apart_from_one_that_found_nothing_out(
    run, github, server, answer, code, state
):
    answer_run(server, (200, RUN | answer))

    assert run().code == code
    assert github.states == ["pending", state]
    headline = {"failure": "❌ failed", "error": "⚪ could not be found out"}[state]
    assert f"### `partita/shop`: {headline}\n" in github.comments[0]["body"]


def test_a_job_that_is_not_let_in_leads_to_itself(
    run: Run, github: FakeGitHub, server: ScriptedServer
):
    server.answers["POST /api/v1/auth/ci"] = [problem(403, "no trust rule")]

    assert run(GITHUB_RUN_ID="7").code == 3
    (status,) = github.statuses
    assert status["state"] == "error"
    assert status["target_url"] == "https://github.example/acme/shop/actions/runs/7"
    assert status["description"].endswith("does not let this job in (403): no trust rule")


def test_a_description_is_one_line_of_at_most_140_characters(
    run: Run, github: FakeGitHub, server: ScriptedServer
):
    sentence = "\x1b[31mcheck\x1b[0m\nfailed\x00\u202e: " + 200 * "ä"
    answer_run(server, (200, FAILED | {"sentence": sentence}))

    run()
    description = github.statuses[-1]["description"]
    assert description == ("check failed: " + 200 * "ä")[:139] + "…"


def test_jobs_with_another_profile_have_a_status_of_their_own(run: Run, github: FakeGitHub):
    run(*BOTH, "--profile=small.yaml", "--backend=kind (1)")

    assert github.statuses[-1]["context"] == "partita/shop/small.yaml/kind--1-"


def test_there_is_one_comment_that_is_edited(run: Run, github: FakeGitHub, server: ScriptedServer):
    for number in range(150):
        github.add_comment(f"comment {number}", {"login": "ada", "type": "User"})
    run()
    answer_run(server, (200, FAILED))
    run(GITHUB_RUN_ATTEMPT="2")

    (comment,) = [each for each in github.comments if each["body"].startswith(MARKER)]
    assert "`partita/shop`: ❌ failed" in comment["body"]
    assert f"Commit {COMMIT} · [run]({server.url}/executions/{RUN['id']})" in comment["body"]


def test_a_comment_of_somebody_else_is_not_edited(run: Run, github: FakeGitHub):
    github.add_comment(f"{MARKER} all is well", {"login": "mallory", "type": "User"})
    run()

    theirs, ours = github.comments
    assert theirs["body"] == f"{MARKER} all is well"
    assert ours["body"].startswith(MARKER)


def test_the_comment_of_a_persons_token_is_found_by_its_name(run: Run, github: FakeGitHub):
    github.user = "ada"
    github.add_comment(MARKER, {"login": "ada", "type": "User"})
    run()

    (comment,) = github.comments
    assert "✅ healthy" in comment["body"]


@pytest.mark.parametrize(("code", "is_written"), [(401, True), (403, True), (404, False)])
def test_a_comment_is_written_where_it_is_known_whose_it_is(run, github, code, is_written):
    github.refuses["GET /user"] = [code]

    job = run("--comment")
    assert (job.code, bool(github.comments)) == (0, is_written), job.said
    assert ("GitHub answers 404" in job.said) is not is_written


def test_what_a_suite_prints_is_neither_markdown_nor_a_name(
    run: Run, github: FakeGitHub, server: ScriptedServer
):
    step = FAILED["verdict"]["steps"][0]
    lines = [
        {"number": 1, "text": text} for text in ("</pre> @ada #1", "![x](//y) <img src=y> &lt;")
    ]
    answer_run(server, (200, FAILED | {"verdict": {"steps": [step | {"lines": lines}]}}))
    run()

    body = github.comments[0]["body"]
    printed = body.partition("<pre>\n")[2].partition("</pre>")[0]
    assert "  | &lt;/pre&gt; @ada #1\n  | ![x](//y) &lt;img src=y&gt; &amp;lt;" in printed
    assert "check exited with code 4: 100%\n  a, b: c\n  adds: 1 != 2" in printed
    around = body.replace(printed, "")
    assert (around.count("pre>"), "ada" in around, "img" in around) == (2, False, False)


def test_a_comment_has_at_most_60000_characters(
    run: Run, github: FakeGitHub, server: ScriptedServer
):
    step = FAILED["verdict"]["steps"][0]
    lines = [{"number": each, "text": 500 * "&"} for each in range(200)]
    answer_run(server, (200, FAILED | {"verdict": {"steps": [step | {"lines": lines}]}}))
    run()

    body = github.comments[0]["body"]
    assert 45_000 < len(body) < 60_000
    assert "the rest is on the page of the run\n</pre>" in body


def test_an_older_run_overwrites_no_comment_of_a_newer_commit(run: Run, github: FakeGitHub):
    github.pulls[0]["head"]["sha"] = "another"
    github.pulls.append({"number": 5, "state": "closed", "head": {"sha": COMMIT}})

    assert run().code == 0
    assert (github.states, github.comments) == (["pending", "success"], [])


def test_the_event_of_a_pull_request_names_its_commit_and_number(
    run: Run, github: FakeGitHub, tmp_path: Path
):
    event = tmp_path / "event.json"
    event.write_text(json.dumps({"pull_request": {"number": 5, "head": {"sha": COMMIT}}}))

    run(GITHUB_SHA="of-the-merge", GITHUB_EVENT_PATH=str(event))
    assert github.states == ["pending", "success"]
    assert f"GET {REPOSITORY}/pulls/5" in github.asked
    assert len(github.comments) == 1


def test_neither_is_written_unless_it_is_wanted(run: Run, github: FakeGitHub):
    run("--timeout=1m")
    assert not github.asked

    run("--commit-status")
    assert (github.states, github.comments) == (["pending", "success"], [])


@pytest.mark.parametrize(
    ("changes", "refuses", "words"),
    [
        ({}, f"POST {REPOSITORY}/statuses/{COMMIT}", "(needs 'permissions: {statuses: write}')"),
        ({}, f"GET {REPOSITORY}/commits/{COMMIT}/pulls", "{pull-requests: write}"),
        ({}, f"GET {REPOSITORY}/issues/5/comments", "{pull-requests: write}"),
        ({}, f"POST {REPOSITORY}/issues/5/comments", "GitHub answers 403: Resource not accessible"),
        ({"GITHUB_TOKEN": ""}, "", "GITHUB_TOKEN is not set"),
        ({"GITHUB_API_URL": "http://github.example"}, "", "must be an https address"),
        ({"GITHUB_API_URL": "http://localhost:9"}, "", "GitHub does not answer: no connection to"),
        ({"GITHUB_API_URL": "http://localhost@github.example"}, "", "holds no password"),
    ],
    ids=str,
)
def test_a_refusal_of_github_is_said_and_changes_no_exit_code(
    run: Run, github: FakeGitHub, server: ScriptedServer, changes, refuses, words
):
    github.refuses[refuses] = [403]
    job = run(**changes)
    assert (job.code, words in job.said) == (0, True), job.said

    answer_run(server, (200, FAILED))
    assert run(**changes).code == 1


def test_a_status_is_tried_again_and_a_comment_is_not(run: Run, github: FakeGitHub):
    github.refuses[f"POST {REPOSITORY}/statuses/{COMMIT}"] = [502, 0]
    github.refuses[f"POST {REPOSITORY}/issues/5/comments"] = [502, 502, 0]

    job = run()
    assert github.states == ["pending", "success"], job.said
    assert github.asked.count(f"POST {REPOSITORY}/statuses/{COMMIT}") == 3
    assert github.asked.count(f"POST {REPOSITORY}/issues/5/comments") == 2  # of two calls
    assert not github.comments


def test_a_job_that_is_stopped_leaves_no_pending_status(
    job: GitHubJob, github: FakeGitHub, server: ScriptedServer
):
    answer_run(server, (200, RUN | {"status": "Running"}))
    environment = job.environment | {
        "GITHUB_API_URL": github.url,
        "GITHUB_REPOSITORY": "acme/shop",
        "GITHUB_SHA": COMMIT,
        "GITHUB_TOKEN": TOKEN,
    }
    process = subprocess.Popen(
        job.words("--commit-status"), env=environment, cwd=job.folder, stdout=subprocess.DEVNULL
    )
    until(lambda: github.states == ["pending"], within_s=20, what="it waits for the run")
    process.send_signal(signal.SIGTERM)

    assert process.wait(timeout=30) == 3
    assert github.states == ["pending", "error"]
    assert github.statuses[-1]["description"] == "the job was stopped"


def test_a_job_that_is_stopped_ends_its_session_before_it_tells_github(
    job: GitHubJob, server: ScriptedServer
):
    answer_run(server, (200, RUN | {"status": "Running"}))
    statuses = f"POST {REPOSITORY}/statuses/{COMMIT}"
    server.answers[statuses] = [(201, {})]
    environment = job.environment | {
        "GITHUB_API_URL": server.url,
        "GITHUB_REPOSITORY": "acme/shop",
        "GITHUB_SHA": COMMIT,
        "GITHUB_TOKEN": TOKEN,
    }
    process = subprocess.Popen(
        job.words("--commit-status"), env=environment, cwd=job.folder, stdout=subprocess.DEVNULL
    )
    until(lambda: server.bodies(statuses) != [], within_s=20, what="it waits for the run")
    process.send_signal(signal.SIGTERM)

    assert process.wait(timeout=30) == 3
    assert [what for what, _, _ in server.heard][-2:] == ["POST /api/v1/auth/sign-out", statuses]


def test_a_shell_that_is_no_job_says_that_both_are_for_ci_systems(run: Run, github: FakeGitHub):
    job = run(GITHUB_ACTIONS="", PARTITA_ID_TOKEN="x")

    assert (job.code, "are for GitHub Actions and GitLab" in job.said) == (0, True), job.said
    assert not github.asked


def test_an_answer_in_another_shape_is_said_and_changes_no_exit_code(run: Run, github: FakeGitHub):
    github.pulls[0] = {"number": 5}

    job = run()
    assert (job.code, "answered in another shape" in job.said) == (0, True), job.said
    assert github.states == ["pending", "success"]
