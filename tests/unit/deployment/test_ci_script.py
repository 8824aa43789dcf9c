"""examples/ci/launch.sh against a server that answers as a test wants it to."""

from __future__ import annotations

import os
import re
import shutil
from typing import Any

import pytest
import yaml

from kernel.ci_trust import matches_pattern
from kernel.exit_codes import INFRASTRUCTURE_REASONS, ExitCode
from partita_client.command.run_views import exit_code_of
from tests.support.ci_script import (
    FAILED,
    ID_TOKEN,
    RUN,
    SCRIPT,
    SESSION,
    Cut,
    ScriptedServer,
    answer_run,
)
from tests.support.processes import ROOT

pytestmark = pytest.mark.slow
REFUSED = {"code": "ci_refused", "detail": "no trust rule lets this CI job in"}


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

    job.run(PARTITA_PATIENCE_S="1" if code else "30")

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

    assert job.run(PARTITA_PATIENCE_S="1").code == 0, job.said
    assert "the results could not be fetched (503)" in job.read("junit.xml")


def launch_keys(server: ScriptedServer) -> list[str]:
    launched = [headers for what, headers, _ in server.heard if what == "POST /api/v1/executions"]
    return [headers["idempotency-key"] for headers in launched]


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"GITHUB_RUN_ATTEMPT": "2", "GITHUB_JOB": "shop"}, "github-7-2-shop-shop-SUM"),
        ({"GITHUB_ACTIONS": "", "PARTITA_ID_TOKEN": "x", "CI_JOB_ID": "5"}, "gitlab-5-shop-SUM"),
        ({"PARTITA_KEY": "mine"}, "mine"),
        ({"GITHUB_JOB": "ä b"}, "github-7-1----b-shop-SUM"),
    ],
    ids=str,
)
def test_the_same_job_and_attempt_have_one_key(job, server, changes, key):
    job.run(**changes)

    sent = launch_keys(server)[0]
    assert re.sub(r"-\d{1,10}$", "-SUM", sent) == key
    others = [h for what, h, _ in server.heard if not what.endswith("executions")]
    assert not any("idempotency-key" in headers for headers in others)


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
    job.run(PARTITA_SERVER=address, PARTITA_TOKEN="pat_mine", PARTITA_PATIENCE_S="0")

    assert job.code == (3 if is_taken else 2), job.said
    assert ("must be an https address" in job.said) is not is_taken


def test_an_answer_that_is_cut_off_is_none(job, server):
    run = RUN | {"artifacts": [{"path": "a"}]}
    answer_run(server, (200, Cut(RUN | {"status": "Failed"})), (200, run))
    archive = f"GET /api/v1/executions/{RUN['id']}/artifacts/archive"
    server.answers[archive] = [(200, Cut("PK"))]

    assert job.run(PARTITA_PATIENCE_S="4").code == 0, job.said

    assert "The artifacts could not be fetched (000)" in job.said
    assert "transfer closed" in job.said
    assert not (job.folder / "partita-artifacts.zip").exists()


def test_the_archive_has_more_time_than_other_answers(job, server):
    answer_run(server, (200, RUN | {"artifacts": [{"path": "a"}]}))
    spy = job.folder / "bin" / "curl"
    spy.parent.mkdir()
    spy.write_text(f'#!/bin/sh\necho "$*" >>{job.folder}/calls\nexec {shutil.which("curl")} "$@"\n')
    spy.chmod(0o700)

    job.run(PATH=f"{spy.parent}:{os.environ['PATH']}")

    limits = re.findall(r"--max-time (\d+) .*/api/v1/(\S+)", job.read("calls"))
    assert ("600", f"executions/{RUN['id']}/artifacts/archive") in limits
    assert {limit for limit, path in limits if not path.endswith("archive")} == {"60"}


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

    assert job.run().code == 3
    assert "does not answer: the answer is no JSON" in job.said


def test_files_go_into_folders_that_are_made(job, server):
    answer_run(server, (200, RUN | {"artifacts": [{"path": "a"}]}))

    assert job.run(PARTITA_ARTIFACTS="out/a/all.zip", PARTITA_JUNIT="out/b/junit.xml").code == 0
    assert (job.read("out/a/all.zip"), job.read("out/b/junit.xml")) == ("PK", "<testsuites/>")


@pytest.mark.parametrize("variable", ["PARTITA_ARTIFACTS", "PARTITA_JUNIT", "GITHUB_STEP_SUMMARY"])
def test_a_file_that_cannot_be_written_is_said_and_changes_nothing(job, server, variable):
    answer_run(server, (200, RUN | {"artifacts": [{"path": "a"}]}))
    (job.folder / "file").touch()

    assert job.run(**{variable: "file/in-a-file"}).code == 0, job.said
    assert "could not be written" in job.said


@pytest.mark.parametrize(("status", "code"), [("Healthy", 0), ("Failed", 3)])
def test_a_failure_whose_steps_cannot_be_fetched_is_not_the_codes(job, server, status, code):
    ended = RUN | {"status": status, "reason": "step_failed"}
    answer_run(server, (200, ended), (404, {"detail": "gone"}))

    assert job.run(PARTITA_PATIENCE_S="1").code == code, job.said
    assert "The details of the run could not be fetched (404): gone" in job.said


@pytest.mark.parametrize("code", [1, 5, 127])
def test_a_command_that_fails_by_itself_says_nothing_of_the_code(job, code):
    date = job.folder / "bin" / "date"
    date.parent.mkdir()
    date.write_text(f"#!/bin/sh\nexit {code}\n")
    date.chmod(0o700)

    assert job.run(PATH=f"{date.parent}:{os.environ['PATH']}").code == 3
    assert "nothing is known of the code" in job.said
    assert {path.name for path in job.folder.iterdir()} == {"junit.xml", "bin"}


def test_the_script_knows_the_reasons_of_infrastructure_that_the_commands_know():
    listed = re.search(r"\[([^]]*)\] as \$infrastructure", SCRIPT.read_text())

    assert listed is not None
    assert sorted(re.findall(r'"(\w+)"', listed[1])) == sorted(INFRASTRUCTURE_REASONS)


def test_the_legs_of_a_matrix_have_keys_of_their_own(job, server):
    suite = "s" * 200
    for more in ({}, {"PARTITA_PROFILE": "small.yaml"}, {"PARTITA_BACKEND": "small.yaml"}, {}):
        job.run(GITHUB_JOB="check", PARTITA_SUITE=suite, PARTITA_TOKEN="pat_mine", **more)

    first, second, third, again = launch_keys(server)
    assert len({first, second, third}) == 3
    assert first == again
    assert max(map(len, (first, second, third))) <= 128


AWAY = [(503, {}), (429, {}), (401, {"detail": "expired"}), (200, Cut("PK"))]


def test_results_and_artifacts_are_fetched_again_while_the_server_is_away(job, server):
    run = RUN | {"artifacts": [{"path": "a"}]}
    answer_run(server, (200, run), *AWAY, (200, run))
    for path, content in {"junit": "<testsuites/>", "artifacts/archive": "PK"}.items():
        server.answers[f"GET /api/v1/executions/{RUN['id']}/{path}"] = [*AWAY, (200, content)]

    assert job.run().code == 0, job.said

    assert "could not be fetched" not in job.said
    assert (job.read("junit.xml"), job.read("partita-artifacts.zip")) == ("<testsuites/>", "PK")
    assert len(server.bodies("POST /api/v1/auth/ci")) == 4


def test_a_session_that_cannot_be_renewed_does_not_change_a_known_end(job, server):
    for path in ("/junit", "/artifacts/archive"):
        server.answers[f"GET /api/v1/executions/{RUN['id']}{path}"] = [(401, {"detail": "expired"})]
    answer_run(server, (200, RUN), (401, {"detail": "expired"}))

    assert job.run(GITHUB_ACTIONS="", PARTITA_ID_TOKEN=ID_TOKEN).code == 0, job.said
    assert "The details of the run could not be fetched (401): expired" in job.said


def test_the_examples_launch_on_the_branches_that_the_guides_rule_lets_in():
    guide = (ROOT / "docs" / "guides" / "ci.md").read_text()
    rule = yaml.safe_load(guide.split("```yaml\n")[1].split("```")[0])["ciTrust"][0]
    github = yaml.safe_load(SCRIPT.with_name("github-workflow.yml").read_text())
    gitlab = yaml.safe_load(SCRIPT.with_name("gitlab-ci.yml").read_text())
    [condition] = gitlab["partita"]["rules"]
    pattern = condition["if"].removeprefix("$CI_COMMIT_BRANCH =~ ").strip("/").replace("\\/", "/")

    assert github[True] == {"push": {"branches": rule["branches"]}}  # YAML reads `on` as true
    for branch in ("main", "release/1", "release/1/a", "feature", "main2", "a/main"):
        is_let_in = any(matches_pattern(each, branch) for each in rule["branches"])
        assert bool(re.search(pattern, branch)) is is_let_in, branch
