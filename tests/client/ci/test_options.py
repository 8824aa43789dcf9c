"""Which server and token a job of CI uses, and which options it takes."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from partita_client.ci.job import read_job
from tests.support.ci_job import FAILED, RUN, SESSION, GitHubJob, ScriptedServer
from tests.support.ci_job import problem as refusal

pytestmark = pytest.mark.slow
BUILDKITE = {"BUILDKITE_JOB_ID": "b-1", "BUILDKITE_MESSAGE": "Prices", "BUILDKITE_COMMIT": "9f"}
CIRCLE = {"CIRCLE_WORKFLOW_JOB_ID": "c-1", "CIRCLE_USERNAME": "ada", "CIRCLE_BRANCH": "main"}


def bearer(server: ScriptedServer) -> str:
    """Return the token of the launch."""
    launches = [heard for heard in server.heard if heard[0] == "POST /api/v1/executions"]
    return launches[-1][1]["authorization"].removeprefix("Bearer ")


def write_context(job: GitHubJob, token: str) -> str:
    """Sign a person in to the server of the job; return the folder of the configuration."""
    folder = job.folder.parent / "config"
    file = folder / "partita" / "config.json"
    file.parent.mkdir(parents=True)
    context = {"url": job.server.url, "token": token}
    file.write_text(json.dumps({"current": "here", "contexts": {"here": context}}))
    file.chmod(0o600)
    return str(folder)


def test_the_jobs_own_token_comes_before_that_of_a_person(job: GitHubJob, server: ScriptedServer):
    config = write_context(job, "pat_of-ada")

    assert job.run(XDG_CONFIG_HOME=config).code == 0, job.said
    assert bearer(server) == SESSION
    job.run(XDG_CONFIG_HOME=config, PARTITA_TOKEN="pat_of-the-job")
    assert bearer(server) == "pat_of-the-job"
    job.run(XDG_CONFIG_HOME=config, GITHUB_ACTIONS="", ACTIONS_ID_TOKEN_REQUEST_URL="")
    assert bearer(server) == "pat_of-ada"


def test_no_token_goes_to_a_server_that_a_file_of_the_repository_names(job, server):
    (job.folder / ".git").mkdir()
    (job.folder / "partita.toml").write_text(f'name = "shop"\nserver = "{server.url}"\n')

    job.run(PARTITA_URL="")
    assert (job.code, f"PARTITA_URL={server.url}" in job.said) == (2, True), job.said
    job.run(PARTITA_URL="", PARTITA_TOKEN="pat_mine")
    assert (job.code, f"PARTITA_URL={server.url}" in job.said) == (2, True), job.said
    assert server.heard == []


def test_a_job_takes_no_server_of_a_person_unless_it_is_named(job, server):
    config = write_context(job, "pat_of-ada")

    job.run(PARTITA_URL="", XDG_CONFIG_HOME=config)
    assert (job.code, "no server is named for this CI job" in job.said) == (2, True), job.said
    assert server.heard == []
    assert job.run("--server", server.url, PARTITA_URL="", XDG_CONFIG_HOME=config).code == 0
    assert job.run("--context=here", PARTITA_URL="", XDG_CONFIG_HOME=config).code == 0, job.said


@pytest.mark.parametrize(
    "options",
    [("--junit=a.xml",), ("--comment", "--commit-status"), ("--patience=1s", "--artifacts=")],
    ids=str,
)
def test_the_options_of_a_job_need_ci(job: GitHubJob, options: tuple[str, ...]):
    job.run_plain("shop", *options)

    assert (job.code, "for CI jobs alone" in job.said, "next: add --ci" in job.said) == (
        2,
        True,
        True,
    ), job.said


def test_what_a_person_says_comes_before_what_the_system_says(job, server):
    job.run(
        "--author=eve", "--branch=b", "--commit=c", "--message=m", "--trigger=API", "--keep=30m",
        GITHUB_ACTOR="ada", GITHUB_SHA="9f", GITHUB_REF_NAME="main",
    )  # fmt: skip

    assert server.bodies("POST /api/v1/executions") == [
        {
            "suiteId": "shop", "trigger": "API", "author": "eve", "branch": "b", "commit": "c",
            "message": "m", "keepAliveMs": 1_800_000,
        }
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("variables", "name", "texts"),
    [
        (BUILDKITE, "buildkite-b-1", ("", "9f", "", "Prices")),
        (CIRCLE, "circleci-c-1", ("ada", "", "main", "")),
        ({"BUILD_TAG": "jenkins-shop-1", "GIT_COMMIT": "9f"}, "jenkins-jenkins-shop-1",
         ("", "9f", "", "")),
        ({"CI_JOB_ID": "5", "CI_COMMIT_SHA": 400 * "a"}, "gitlab-5", ("", 300 * "a", "", "")),
    ],
    ids=["buildkite", "circleci", "jenkins", "gitlab"],
)  # fmt: skip
def test_each_system_says_what_the_job_is(monkeypatch, variables, name, texts):
    for variable in ("GITHUB_ACTIONS", "CI_JOB_ID", "GITLAB_CI", "BUILD_TAG"):
        monkeypatch.delenv(variable, raising=False)
    for variable, value in variables.items():
        monkeypatch.setenv(variable, value)

    job = read_job()
    assert (job.name, (job.author, job.commit, job.branch, job.message)) == (name, texts)


def test_a_job_that_nothing_names_is_no_other_one_and_says_how_its_run_is_found(job, server):
    unnamed = {"GITHUB_ACTIONS": "", "PARTITA_TOKEN": "pat_mine"}
    server.answers[f"GET /api/v1/executions/{RUN['id']}"] = [(200, RUN | {"status": "Running"})]

    said = job.run("--timeout=1s", **unnamed).said + job.run("--timeout=1s", **unnamed).said
    launches = [heard for heard in server.heard if heard[0] == "POST /api/v1/executions"]
    first, second = (headers["idempotency-key"] for _, headers, _ in launches)
    assert first != second
    assert said.count(f"Look again: partita run wait {RUN['id']}") == 2
    assert "attaches" in job.run("--timeout=1s", "--idempotency-key=mine", **unnamed).said


def test_the_event_of_github_says_the_message(job: GitHubJob, server, tmp_path: Path):
    event = tmp_path / "event.json"
    event.write_text(json.dumps({"head_commit": {"message": "Prices in euros"}}))
    job.run(GITHUB_EVENT_PATH=str(event))
    event.write_text("[]")
    job.run(GITHUB_EVENT_PATH=str(event))

    sent = server.bodies("POST /api/v1/executions")
    assert [each.get("message") for each in sent] == ["Prices in euros", None]


@pytest.mark.parametrize(
    "token", ["tok en", "to\nken", "x" * 9000, "ä"], ids=["blank", "line", "long", "letter"]
)
def test_what_is_no_token_of_a_job_is_not_sent(job: GitHubJob, server: ScriptedServer, token: str):
    job.run(PARTITA_ID_TOKEN=token)

    assert (job.code, server.heard) == (2, []), job.said
    assert token not in job.said


@pytest.mark.parametrize(
    "text",
    [
        "::add-path::/tmp",
        "  ::error::x",
        "a ##[add-path]/tmp",
        "\n::set-env::a",
        "\r::x::",
        "\x1b[1m::y::",
    ],
)
def test_no_text_of_the_server_is_a_command(job: GitHubJob, server: ScriptedServer, text: str):
    forged = RUN | {"status": text, "sentence": text}
    server.answers[f"GET /api/v1/executions/{RUN['id']}"] = [(200, forged), (200, RUN)]
    said = job.run().said
    server.answers["POST /api/v1/executions"] = [refusal(403, text)]
    said += job.run().said

    ours = ("::stop-commands::", "::error title=Partita::")
    lines = [line for line in said.split("\n") if "##[" in line or line.lstrip().startswith("::")]
    assert all(line.startswith(ours) or len(line) == 36 for line in lines), lines


@pytest.mark.parametrize(
    "text",
    [
        "a ##vso[task.setvariable variable=x]y",
        "##teamcity[buildStatus text='x']",
        "##[command]x",
        "::x::y",
    ],
)
def test_no_text_of_the_server_is_a_command_of_another_system(job, server, text):
    forged = RUN | {"status": "Failed", "reason": "step_failed", "sentence": text}
    server.answers[f"GET /api/v1/executions/{RUN['id']}"] = [
        (200, RUN | {"status": text, "sentence": text}),
        (200, forged | {"verdict": FAILED["verdict"] | {"sentence": text}}),
    ]
    known = {"GITHUB_ACTIONS": "", "PARTITA_TOKEN": "pat_mine"}
    said = job.run(**known).said
    server.answers["POST /api/v1/executions"] = [refusal(403, text)]
    said += job.run(**known).said

    assert text.strip("#: ")[:4] in said
    assert not re.search(r"##\w*\[|^\s*::", said, re.M)


def test_a_token_that_the_job_does_not_need_is_not_read(job, server):
    """On a machine of a person, the context of the server may have its token in a keyring."""
    config = write_context(job, "")
    file = Path(config, "partita", "config.json")
    file.write_text(file.read_text().replace('"token": ""', '"tokenIn": "keyring"'))

    known = {"XDG_CONFIG_HOME": config, "PARTITA_KEYRING": "off"}
    assert job.run(**known).code == 0, job.said
    assert job.run(**known, GITHUB_ACTIONS="").code == 2, job.said
    assert "is in the keyring" in job.said


def test_jq_has_no_document_of_a_job(job: GitHubJob, server: ScriptedServer):
    job.run("--jq=.id")

    assert (job.code, "leave out --jq" in job.said, server.heard) == (2, True, []), job.said


def test_no_output_of_the_job_is_forged(job: GitHubJob, server: ScriptedServer):
    server.answers["POST /api/v1/executions"] = [(201, RUN | {"id": "run-1\nstatus=Healthy"})]

    assert job.run("--patience=1s").code == 3, job.said
    assert not (job.folder / "output").exists()
