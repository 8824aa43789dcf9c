"""`partita run launch --ci` against a server that answers as a test wants it to."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from kernel.exit_codes import INFRASTRUCTURE_REASONS, CiExitCode, ExitCode
from partita_client import Client, NoConnection, WaitTimeout
from partita_client.ci.outcome import outcome_of
from partita_client.ci.report_text import check_name
from partita_client.command.run_views import exit_code_of
from tests.support.ci_job import (
    FAILED,
    ID_TOKEN,
    RUN,
    SESSION,
    Cut,
    Late,
    ScriptedServer,
    Trickle,
    answer_run,
    problem,
)

pytestmark = pytest.mark.slow
REFUSED = problem(403, "no trust rule lets this CI job in", "ci_refused")
BUSY = problem(503, "busy")
AWAY_FOR_A_MOMENT = [(503, {}), (429, {}), problem(401, "expired"), (200, Cut("PK"))]


def steps(*reasons: str) -> list[dict[str, Any]]:
    """Failed steps with these reasons, beside a healthy one and one that may fail."""
    failed: dict[str, Any] = {"status": "failed", "continueOnFailure": False}
    others: list[dict[str, Any]] = [
        {"status": "healthy"},
        failed | {"continueOnFailure": True, "reason": "timeout"},
    ]
    return [*others, *(failed | {"reason": reason} for reason in reasons)]


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


def test_tokens_are_sent_and_written_nowhere(job, server):
    job.run()

    asked = {what.partition("?")[0]: headers for what, headers, _ in server.heard}
    assert asked["GET /id"]["authorization"] == "Bearer the-request-token"
    assert "authorization" not in asked["POST /api/v1/auth/ci"]
    assert asked["POST /api/v1/executions"]["authorization"] == f"Bearer {SESSION}"
    audience = next(what for what, _, _ in server.heard if what.startswith("GET /id"))
    assert (
        audience == f"GET /id?api=2&audience={server.url.replace(':', '%3A').replace('/', '%2F')}"
    )
    for secret in (ID_TOKEN, SESSION, "the-request-token"):
        assert secret not in job.said
    assert server.heard[-1][0] == "POST /api/v1/auth/sign-out"
    assert {path.name for path in job.folder.iterdir()} == {"junit.xml", "output", "summary.md"}


@pytest.mark.parametrize("variables", [{}, {"GITHUB_ACTIONS": "", "PARTITA_ID_TOKEN": ID_TOKEN}])
def test_a_token_that_the_server_says_is_written_nowhere(job, server, variables):
    answer_run(server, (200, RUN | {"status": "Running", "sentence": f"waits for {ID_TOKEN}"}))
    said = job.run("--timeout=1s", **variables).said
    server.answers["POST /api/v1/executions"] = [problem(403, f"no: {ID_TOKEN}, {SESSION}-2")]
    said += job.run(**variables).said + job.read("junit.xml")

    assert said.count("no: ***, ***") == 2
    assert "waits for ***" in said
    assert (ID_TOKEN in said, SESSION in said) == (False, False)


@pytest.mark.parametrize(("minutes", "is_warned"), [(20, True), (60, False)])
def test_a_session_that_ends_before_the_job_is_warned_of(job, server, minutes, is_warned):
    ends = datetime.now(UTC) + timedelta(minutes=minutes)
    session = server.answers["POST /api/v1/auth/ci"][0][1] | {"expiresAt": f"{ends:%FT%TZ}"}
    server.answers["POST /api/v1/auth/ci"] = [(201, session)]

    assert job.run(GITHUB_ACTIONS="", PARTITA_ID_TOKEN=ID_TOKEN).code == 0, job.said
    assert ("cannot be renewed, but --timeout is 60: " in job.said) is is_warned
    assert "cannot be renewed" not in job.run().said  # where the job may ask for another token


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
    assert "  adds: 1 != 2" in job.read("summary.md")


def test_what_a_suite_says_is_no_markdown_in_the_summary(job, server):
    step = FAILED["verdict"]["steps"][0]
    text = "![x](https://a.example) </pre> <img src=y> ```"
    forged = FAILED | {"suiteTitle": text, "duration": text, "sentence": text}
    line = {"number": 1, "text": text}
    answer_run(server, (200, forged | {"verdict": {"steps": [step | {"lines": 9000 * [line]}]}}))

    assert job.run().code == 1, job.said
    head, _, rest = job.read("summary.md").partition("<pre>\n")
    quoted, _, foot = rest.partition("\n</pre>\n")
    assert "\n  | ![x](https://a.example) &lt;/pre&gt; &lt;img src=y&gt; ```\n" in quoted
    assert quoted.endswith("\n… the rest is on the page of the run")
    assert 200_000 < len(quoted) < 1_000_000
    for part in (head, foot):
        assert r"\!\[x\]\(https\:\/\/a\.example\) \<\/pre\> \<img src\=y\> \`\`\`" in part


def test_jobs_with_another_leg_have_another_check():
    names = [check_name("shop", *leg) for leg in (("", ""), ("kind", ""), ("", "kind"))]

    assert names == ["partita/shop", "partita/shop/kind", "partita/shop/default/kind"]


def test_what_a_run_says_is_no_command_to_github(job, server):
    answer_run(server, (200, FAILED))
    lines = job.run().said.splitlines()

    stop = next(line for line in lines if line.startswith("::stop-commands::"))
    begun, ended = lines.index(stop), lines.index(f"::{stop.rpartition('::')[2]}::")
    assert any("::add-path::/tmp" in line for line in lines[begun:ended])
    assert not any(line.startswith(("::set-output", "::add-path")) for line in lines)


def test_the_artifacts_come_as_one_file_unless_they_are_not_wanted(job, server):
    answer_run(server, (200, RUN | {"artifacts": [{"path": "a"}]}))

    job.run("--artifacts=all.zip")
    assert job.read("all.zip") == "PK"

    job.run("--artifacts=")
    assert not (job.folder / "partita-artifacts.zip").exists()


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
            3,
        ),
        ({"status": "Failed", "reason": "internal_error"}, 3),
        ({"status": "Failed", "reason": "backend_unavailable"}, 3),
        ({"status": "Failed", "reason": "run_timeout"}, 3),
        ({"status": "Canceled"}, 3),
    ],
    ids=str,
)
def test_only_failed_steps_are_the_fault_of_the_code(job, server, status, code):
    run: Any = RUN | status
    answer_run(server, (200, run))

    assert job.run().code == code, job.said
    assert (code == 1) is (exit_code_of(run) is ExitCode.RUN_FAILED)


@pytest.mark.parametrize(
    ("route", "answers", "code", "words"),
    [
        ("POST /api/v1/auth/ci", [REFUSED], 3, "(403): no trust rule lets this CI job in"),
        ("POST /api/v1/auth/ci", [BUSY], 3, "(503): busy"),
        ("POST /api/v1/executions", [BUSY, (201, RUN)], 0, "Healthy"),
        ("POST /api/v1/executions", [BUSY], 3, "(503): busy"),
        ("POST /api/v1/executions", [problem(404, "no suite")], 2, "(404): no suite"),
        ("POST /api/v1/executions", [problem(403, "not this")], 3, "(403): not this"),
        ("POST /api/v1/executions", [(404, "<html/>")], 3, "answered 404 without a problem"),
        ("GET /id", [(403, {})], 3, "GitHub gave this job no OIDC token"),
    ],
    ids=str,
)
def test_a_refusal_is_told_in_the_servers_words(job, server, route, answers, code, words):
    server.answers[route] = answers

    job.run("--patience=1s" if code else "--patience=30s")

    assert (job.code, words in job.said) == (code, True), job.said
    if code:
        assert "<error message=" in job.read("junit.xml")


def test_results_with_an_error_are_xml_whatever_the_server_says(job, server):
    server.answers["POST /api/v1/executions"] = [problem(403, '<no> & "never" \x00\x1b[1m')]

    assert job.run().code == 3, job.said
    (error,) = ET.fromstring(job.read("junit.xml")).iter("error")
    assert (error.get("message") or "").endswith('(403): <no> & "never"')


def test_a_server_that_is_away_for_a_moment_is_waited_for(job, server):
    answer_run(server, (502, "bad gateway"), (500, {}), (429, {}), (200, RUN))

    assert job.run().code == 0, job.said


_UNKNOWN_HOST = """
import os, socket
import partita_client.patience
os.environ["PARTITA_URL"] = "https://partita.exmaple"
partita_client.patience.UNKNOWN_HOST_S = 1.0
known = socket.getaddrinfo
def look_up(host, *words, **more):
    if host == "partita.exmaple":
        raise socket.gaierror(socket.EAI_NONAME, "unknown")
    return known(host, *words, **more)
socket.getaddrinfo = look_up
"""


def test_a_mistyped_host_ends_soon_and_is_named(job):
    """Whatever the patience is, which is five minutes here."""
    assert job.run_python(_UNKNOWN_HOST).code == 3, job.said

    assert "there is no host partita.exmaple (unknown)" in job.read("junit.xml")
    assert "check the spelling of the address, and the DNS of this machine" in job.said
    assert job.said.count("Waiting for https://partita.exmaple") == 1


def test_an_address_without_tls_ends_at_once_and_says_so(job, server):
    address = server.url.replace("http:", "https:")

    assert job.run(PARTITA_URL=address).code == 3, job.said

    assert f"{address} does not speak TLS" in job.read("junit.xml")
    assert "Waiting for" not in job.said


def test_an_absence_that_lasts_says_that_the_run_goes_on(job, server):
    answer_run(server, (502, "bad gateway"))

    assert job.run("--patience=1s").code == 3
    assert f"The run goes on: {server.url}/executions/{RUN['id']}" in job.said


def test_a_session_that_ends_is_renewed_where_the_job_may_ask_for_a_token(job, server):
    answer_run(server, problem(401, "expired"), (200, RUN))
    assert job.run().code == 0, job.said
    assert len(server.bodies("POST /api/v1/auth/ci")) == 2

    answer_run(server, problem(401, "expired"), (200, RUN))
    job.run(GITHUB_ACTIONS="", PARTITA_ID_TOKEN=ID_TOKEN)
    assert (job.code, "The run goes on" in job.said) == (3, True), job.said


def test_results_that_cannot_be_fetched_are_said_in_the_file(job, server):
    junit = f"GET /api/v1/executions/{RUN['id']}/junit"
    for answer in (BUSY, (200, "<html>sign in</html>")):
        server.answers[junit] = [answer]

        assert job.run("--patience=1s").code == 0, job.said
        assert "The results could not be fetched: " in job.read("junit.xml")


def launch_keys(server: ScriptedServer) -> list[str]:
    launched = [headers for what, headers, _ in server.heard if what == "POST /api/v1/executions"]
    return [headers["idempotency-key"] for headers in launched]


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"GITHUB_RUN_ATTEMPT": "2", "GITHUB_JOB": "shop"}, "github-7-2-shop-shop-SUM"),
        ({"GITHUB_ACTIONS": "", "PARTITA_ID_TOKEN": "x", "CI_JOB_ID": "5"}, "gitlab-5-shop-SUM"),
        ({"GITHUB_ACTIONS": "", "PARTITA_ID_TOKEN": "x", "BUILD_TAG": "b"}, "jenkins-b-shop-SUM"),
        ({"GITHUB_JOB": "ä b"}, "github-7-1---b-shop-SUM"),
    ],
    ids=str,
)
def test_the_same_job_and_attempt_have_one_key(job, server, changes, key):
    job.run(**changes)

    sent = launch_keys(server)[0]
    assert re.sub(r"-\d{1,10}$", "-SUM", sent) == key
    others = [h for what, h, _ in server.heard if not what.endswith("executions")]
    assert not any("idempotency-key" in headers for headers in others)
    job.run("--idempotency-key=mine", **changes)
    assert launch_keys(server)[1] == "mine"


def test_a_token_of_partita_is_used_as_it_is_and_not_ended(job, server):
    assert job.run(PARTITA_TOKEN="pat_mine").code == 0, job.said

    assert "POST /api/v1/auth/ci" not in {what for what, _, _ in server.heard}
    assert "POST /api/v1/auth/sign-out" not in {what for what, _, _ in server.heard}
    assert "pat_mine" not in job.said


@pytest.mark.parametrize(
    ("address", "is_taken"),
    [
        ("http://localhost:9", True),
        ("http://127.0.0.1:9/", True),
        ("http://[::1]:9", True),
        ("http://localhost.evil.example", False),
        ("http://127.0.0.1.evil.example", False),
        ("http://[::1].evil.example", False),
        ("http://localhost@evil.example", False),
        ("http://partita.example", False),
    ],
)
def test_tokens_go_by_plain_http_to_this_machine_only(job, address, is_taken):
    job.run("--patience=1ms", PARTITA_URL=address, PARTITA_TOKEN="pat_mine")

    assert job.code == (3 if is_taken else 2), job.said
    refusals = ("must be an https address", "holds no password", "is not an address of a server")
    assert any(each in job.said for each in refusals) is not is_taken


def test_an_answer_that_is_cut_off_is_none(job, server):
    run = RUN | {"artifacts": [{"path": "a"}]}
    answer_run(server, (200, Cut(RUN | {"status": "Failed"})), (200, run))
    archive = f"GET /api/v1/executions/{RUN['id']}/artifacts/archive"
    server.answers[archive] = [(200, Cut("PK"))]

    assert job.run("--patience=4s").code == 0, job.said

    assert "The artifacts could not be fetched: " in job.said
    assert "the download was cut" in job.said
    assert not (job.folder / "partita-artifacts.zip").exists()


def test_the_archive_has_more_time_than_other_answers(job, server):
    answer_run(server, (200, RUN | {"artifacts": [{"path": "a"}]}))
    archive = f"/executions/{RUN['id']}/artifacts/archive"
    server.answers[f"GET /api/v1{archive}"] = [(200, Late("PK", after_s=1.5))]
    server.answers[f"GET /api/v1/executions/{RUN['id']}/junit"] = [(200, Late("", after_s=1.5))]

    with Client(server.url, timeout_s=0.3) as client:
        assert client.download_archive(RUN["id"], job.folder / "all.zip") == 2
        with pytest.raises(NoConnection, match="does not answer in time"):
            client.junit(RUN["id"])


def test_an_archive_that_comes_letter_by_letter_is_given_up(job, server):
    answer = (200, Trickle(300 * "P"))  # 30 s
    server.answers[f"GET /api/v1/executions/{RUN['id']}/artifacts/archive"] = [answer]

    with Client(server.url) as client, pytest.raises(WaitTimeout, match="takes too long"):
        client.download_archive(RUN["id"], job.folder / "all.zip", timeout_s=0.5)
    assert not list(job.folder.iterdir())


@pytest.mark.parametrize(
    "route", ["POST /api/v1/executions", f"GET /api/v1/executions/{RUN['id']}"]
)
@pytest.mark.parametrize("page", ["<html>sign in</html>", "", '"text"', "{}{}"])
def test_an_answer_that_is_no_json_is_none(job, server, route, page):
    answer_run(server, (200, RUN))
    server.answers[route] = [(200 if route.startswith("GET") else 201, page), (201, RUN)]
    if route.startswith("GET"):
        answer_run(server, (200, page), (200, RUN))

    assert job.run().code == 0, job.said


def test_a_session_that_is_no_json_could_not_be_found_out(job, server):
    server.answers["POST /api/v1/auth/ci"] = [(201, "<html/>")]

    assert job.run("--patience=1s").code == 3
    assert "with something that is not JSON" in job.said


def test_files_go_into_folders_that_are_made(job, server):
    answer_run(server, (200, RUN | {"artifacts": [{"path": "a"}]}))

    assert job.run("--artifacts=out/a/all.zip", "--junit=out/b/junit.xml").code == 0
    assert (job.read("out/a/all.zip"), job.read("out/b/junit.xml")) == ("PK", "<testsuites/>")


@pytest.mark.parametrize("place", ["file/in-a-file", "/dev/full"])
@pytest.mark.parametrize("what", ["--artifacts", "--junit", "GITHUB_STEP_SUMMARY", "GITHUB_OUTPUT"])
def test_a_file_that_cannot_be_written_is_said_and_changes_nothing(job, server, what, place):
    answer_run(server, (200, RUN | {"artifacts": [{"path": "a"}]}))
    (job.folder / "file").touch()

    if what.startswith("--"):
        job.run(f"{what}={place}")
    else:
        job.run(**{what: place})

    assert job.code == 0, job.said
    assert "could not be written" in job.said


def test_a_temporary_folder_that_is_full_or_missing_changes_nothing(job, server):
    answer_run(server, (200, RUN | {"artifacts": [{"path": "a"}]}))

    with_no_folder = "import tempfile; tempfile.tempdir = '/nonexistent'"
    assert job.run_python(with_no_folder).code == 0, job.said
    assert "partita-artifacts.zip could not be written" in job.said


@pytest.mark.parametrize(("status", "code"), [("Healthy", 0), ("Failed", 1)])
def test_a_log_that_cannot_be_written_changes_no_exit_code(job, server, status, code):
    ended = FAILED | {"status": status}
    answer_run(server, (200, ended))

    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            job.words(), env=job.environment, cwd=job.folder,
            stdout=full, stderr=full, timeout=60, check=False,
        )  # fmt: skip
    assert done.returncode == code
    assert job.read("junit.xml") == "<testsuites/>"


def test_letters_that_the_log_cannot_have_end_nothing(job, server):
    answer_run(server, (200, FAILED | {"sentence": "\ud800 zażółć \u202e"}))

    assert job.run(PYTHONIOENCODING="ascii").code == 1, job.said
    assert r"za\u017c" in job.said
    assert "could not be written" not in job.said
    assert "zażółć" in job.read("summary.md")


@pytest.mark.parametrize(("status", "code"), [("Healthy", 0), ("Failed", 3)])
def test_a_failure_whose_steps_cannot_be_fetched_is_not_the_codes(job, server, status, code):
    ended = RUN | {"status": status, "reason": "step_failed"}
    answer_run(server, (200, ended), problem(404, "gone"))

    assert job.run("--patience=1s").code == code, job.said
    assert "The details could not be fetched: " in job.said
    assert "(404): gone" in job.said


@pytest.mark.parametrize("error", ["RuntimeError('no')", "SystemExit(1)", "MemoryError"])
def test_a_client_that_fails_by_itself_says_nothing_of_the_code(job, error):
    broken = f"""
import time
def fail(*_): raise {error}
time.monotonic = fail
"""

    assert job.run_python(broken).code == 3, job.said
    assert "the code was not judged" in job.said
    assert "the code was not judged" in job.read("junit.xml")
    assert {path.name for path in job.folder.iterdir()} == {"junit.xml"}


def test_what_infrastructure_did_is_what_the_commands_say_it_did():
    for reason in INFRASTRUCTURE_REASONS:
        run: Any = RUN | {"status": "Failed", "reason": "step_failed", "steps": steps(reason)}

        assert outcome_of(run, run).code is CiExitCode.UNKNOWN
        assert exit_code_of(run) is ExitCode.RUN_ERROR


_WITH_HANGUP = """
import os, signal, sys
signal.signal(signal.SIGHUP, signal.SIG_DFL)
os.execv(sys.argv[1], sys.argv[1:])
"""


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGINT, signal.SIGTERM], ids=str)
def test_a_job_that_is_stopped_says_how_its_run_is_found_again(job, server, number):
    answer_run(server, (200, RUN | {"status": "Running"}))
    # whoever runs the tests may have started them by nohup, which a job heeds
    words = [sys.executable, "-c", _WITH_HANGUP, *job.words()]
    process = subprocess.Popen(
        words, env=job.environment, cwd=job.folder, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    for line in process.stdout:
        if "Running: 2 healthy" in line:
            break
    process.send_signal(number)
    said = process.stdout.read()
    process.stdout.close()

    assert process.wait(timeout=30) == 3
    assert (
        f"The run goes on: {server.url}/executions/{RUN['id']}. The same call in this job" in said
    )
    assert "the job was stopped" in job.read("junit.xml")
    assert server.heard[-1][0] == "POST /api/v1/auth/sign-out"


def test_the_legs_of_a_matrix_have_keys_of_their_own(job, server):
    suite = "s" * 200
    for more in ((), ("--profile=small.yaml",), ("--backend=small.yaml",), ()):
        job.run(*more, suite=suite, GITHUB_JOB="check", PARTITA_TOKEN="pat_mine")

    first, second, third, again = launch_keys(server)
    assert len({first, second, third}) == 3
    assert first == again
    assert max(map(len, (first, second, third))) <= 128


def test_two_builds_of_a_long_name_have_keys_of_their_own(job, server):
    name = "jenkins-" + 110 * "j"
    for build in ("17", "18", "17"):
        job.run(GITHUB_ACTIONS="", BUILD_TAG=f"{name}-{build}", PARTITA_TOKEN="pat_mine")

    first, second, again = launch_keys(server)
    assert (first != second, first == again) == (True, True)
    assert max(len(first), len(second)) <= 128


def test_each_sign_in_of_a_job_that_may_ask_has_a_token_of_its_own(job, server):
    server.answers["GET /id"] = [(200, {"value": f"{ID_TOKEN}-{number}"}) for number in (1, 2)]
    server.answers["POST /api/v1/auth/ci"].insert(0, (201, Cut({})))  # it may have been used

    assert job.run().code == 0, job.said
    sent = server.bodies("POST /api/v1/auth/ci")
    assert sent == [{"token": f"{ID_TOKEN}-1"}, {"token": f"{ID_TOKEN}-2"}]


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"PARTITA_ID_TOKEN": ID_TOKEN}, f"partita run wait {RUN['id']}"),
        ({"PARTITA_TOKEN": "pat_mine"}, "The same call in this job attaches to it again."),
    ],
    ids=["a token that is good once", "an API token"],
)
def test_a_second_call_is_advised_where_it_gets_in(job, server, variables, words):
    answer_run(server, (200, RUN | {"status": "Running"}))

    job.run("--timeout=1s", GITHUB_ACTIONS="", CI_JOB_ID="5", **variables)
    assert (job.code, words in job.said) == (3, True), job.said
    assert job.said.count("attaches") == ("PARTITA_TOKEN" in variables)


def test_no_artifacts_of_an_earlier_job_are_left(job, server):
    for url, code in {server.url: 0, "http://partita.example": 2}.items():
        (job.folder / "partita-artifacts.zip").write_text("of another run")

        assert job.run(PARTITA_URL=url).code == code, job.said
        assert not (job.folder / "partita-artifacts.zip").exists()


def test_results_and_artifacts_are_fetched_again_while_the_server_is_away(job, server):
    run = RUN | {"artifacts": [{"path": "a"}]}
    answer_run(server, (200, run), *AWAY_FOR_A_MOMENT, (200, run))
    for path, content in {"junit": "<testsuites/>", "artifacts/archive": "PK"}.items():
        server.answers[f"GET /api/v1/executions/{RUN['id']}/{path}"] = [
            *AWAY_FOR_A_MOMENT,
            (200, content),
        ]

    assert job.run().code == 0, job.said

    assert "could not be fetched" not in job.said
    assert (job.read("junit.xml"), job.read("partita-artifacts.zip")) == ("<testsuites/>", "PK")
    assert len(server.bodies("POST /api/v1/auth/ci")) == 4


def test_a_session_that_cannot_be_renewed_does_not_change_a_known_end(job, server):
    for path in ("/junit", "/artifacts/archive"):
        server.answers[f"GET /api/v1/executions/{RUN['id']}{path}"] = [problem(401, "expired")]
    answer_run(server, (200, RUN), problem(401, "expired"))

    assert job.run(GITHUB_ACTIONS="", PARTITA_ID_TOKEN=ID_TOKEN).code == 0, job.said
    assert "The details could not be fetched: " in job.said
    assert "(401): expired" in job.said
