"""A CI job without a stored key: from its own OIDC token to a check, by `run launch --ci`."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import httpx
import pytest
import yaml

from tests.support.ci_issuer import github_claims
from tests.support.ci_job import EXAMPLES, gitlab_steps, jenkins_steps
from tests.support.oidc import ci_provider
from tests.support.processes import ROOT, until
from tests.support.up import Up, write_suite
from tests.support.wheels import build_wheel

pytestmark = pytest.mark.slow
PROGRAM = f"{sys.executable} -m partita_client"
SECRET = "the-secret-of-the-job-0123456789"
GREEN = """
load("@partita/runtime", "task")
IMAGE = "busybox:1.36"
made = task.run("build", image = IMAGE, command = ["sh", "-c", "echo built; echo kept > kept.txt"])
made.export("kept.txt")
"""
RED = """
load("@partita/runtime", "task", "test")
IMAGE = "busybox:1.36"
build = task.run("build", image = IMAGE, command = ["true"])
test.run(
    "check-prices",
    image = IMAGE,
    command = ["sh", "-c", "echo expected 100%, got 7; exit 4"],
    after = [build],
)
"""
SLOW = """
load("@partita/runtime", "task")
IMAGE = "busybox:1.36"
task.run("wait", image = IMAGE, command = ["sleep", "60"])
"""


@dataclass
class CiSystem:
    """A server that trusts the jobs of an issuer, and the issuer."""

    up: Up
    issuer: str
    audience: str
    folder: Path
    jobs: list[Job] = field(default_factory=list)

    def job(self, suite: str, **environment: str) -> Job:
        made = Job(self, self.folder / f"job-{len(self.jobs)}", suite, environment)
        self.jobs.append(made)
        return made

    def token(self) -> str:
        """A token as GitLab and Jenkins give it to a job, in a variable."""
        headers = {"Authorization": f"Bearer {SECRET}"}
        query = {"audience": self.audience}
        answer = httpx.get(f"{self.issuer}/ci-token", params=query, headers=headers)
        return str(answer.json()["value"])


@dataclass
class Job:
    """One job of GitHub Actions in an empty checkout."""

    system: CiSystem
    folder: Path
    suite: str
    environment: dict[str, str]

    def __post_init__(self) -> None:
        write_suite(self.folder / "suites", self.suite, RED, {})

    @property
    def known(self) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(ROOT),
            "HOME": str(self.folder / "home"),
            "GITHUB_ACTIONS": "true",
            "GITHUB_RUN_ID": "1234",
            "GITHUB_JOB": self.folder.name,
            "GITHUB_ACTOR": "ada",
            "GITHUB_REF_NAME": "main",
            "GITHUB_SHA": "9f2b1c",
            "GITHUB_OUTPUT": str(self.folder / "output"),
            "GITHUB_STEP_SUMMARY": str(self.folder / "summary.md"),
            "ACTIONS_ID_TOKEN_REQUEST_URL": f"{self.system.issuer}/ci-token?api-version=2.0",
            "ACTIONS_ID_TOKEN_REQUEST_TOKEN": SECRET,
            "PARTITA_URL": self.system.up.url,
            "TMPDIR": str(self.folder),
        } | self.environment

    def run(self, *options: str, suite: str | None = None, **environment: str) -> Ended:
        """Run `partita run launch --ci`; the options may have the audience of another server."""
        words = [f"--audience={self.system.audience}", *options, "--"]
        words.append(self.suite if suite is None else suite)
        return self.run_shell(f"{PROGRAM} run launch --ci {shlex.join(words)}", **environment)

    def run_shell(self, command: str, **environment: str) -> Ended:
        known = {name: value for name, value in (self.known | environment).items() if value}
        done = subprocess.run(
            ["sh", "-c", command], env=known, cwd=self.folder,
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        return Ended(done.returncode, done.stdout + done.stderr)

    def read(self, name: str) -> str:
        return (self.folder / name).read_text()

    def outputs(self) -> dict[str, str]:
        return dict(line.split("=", 1) for line in self.read("output").splitlines())

    def cases(self) -> dict[str, list[str]]:
        """Name → what is in it, of each case of the results."""
        root = ET.fromstring(self.read("junit.xml"))
        return {
            str(case.get("name")): [part.tag for part in case] for case in root.iter("testcase")
        }


@dataclass(frozen=True)
class Ended:
    code: int
    said: str


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CiSystem]:
    folder = tmp_path_factory.mktemp("ci")
    for name, star in {"green": GREEN, "red": RED, "slow": SLOW, "hidden": GREEN}.items():
        write_suite(folder / "suites", name, star, {})
    audience = "https://partita.example"
    with ci_provider(folder / "provider.log", SECRET, github_claims()) as issuer:
        rule = {
            "name": "shop",
            "issuer": issuer,
            "audience": audience,
            "repositories": ["acme/shop"],
            "branches": ["main"],
            "workspace": "admin-workspace",
            "suites": ["green", "red", "slow"],
            "allowLocalNetwork": True,
        }
        agents = [{"agentId": "here", "name": "Here", "type": "local", "default": True}]
        settings = folder / "configuration.yaml"
        settings.write_text(yaml.safe_dump({"agents": agents, "ciTrust": [rule]}))
        more = {
            "SUITES_DIR": str(folder / "suites"),
            "PLATFORM_SETTINGS_FILE": str(settings),
            "UP_DEMO": "0",
            "LOCAL_RUNTIME": "process",
        }
        with Up(folder / "up", **more) as up:
            yield CiSystem(up, issuer, audience, folder)


def run_of(system: CiSystem, job: Job) -> dict[str, Any]:
    with system.up.client() as client:
        found: dict[str, Any] = client.get(f"/executions/{job.outputs()['run-id']}").json()
    return found


def test_a_job_goes_from_nothing_to_a_green_check(system: CiSystem):
    job = system.job("green")

    ended = job.run()

    assert ended.code == 0, ended.said
    outputs = job.outputs()
    assert outputs["status"] == "Healthy"
    assert outputs["run-url"] == f"{system.up.url}/executions/{outputs['run-id']}"
    run = run_of(system, job)
    assert run["launchedBy"] == "github: acme/shop@refs/heads/main by workflow CI"
    assert (run["author"], run["trigger"]) == ("ada", "CI")
    assert (run["branch"], run["commit"]) == ("main", "9f2b1c")
    assert "✅ Green: Healthy" in job.read("summary.md")
    assert ET.fromstring(job.read("junit.xml")).tag == "testsuites"
    assert (job.folder / "partita-artifacts.zip").read_bytes().startswith(b"PK")
    assert "::error" not in ended.said


def test_a_second_call_of_the_job_attaches_to_its_run(system: CiSystem):
    job = system.job("green")
    job.run()
    first = job.outputs()["run-id"]

    assert job.run().code == 0
    assert job.outputs()["run-id"] == first
    assert job.run(GITHUB_RUN_ATTEMPT="2").code == 0
    assert job.outputs()["run-id"] != first


def test_a_red_run_is_told_where_the_reader_looks(system: CiSystem):
    job = system.job("red")

    ended = job.run()

    assert ended.code == 1, ended.said
    line = RED.lstrip().splitlines().index('    "check-prices",') + 1
    (annotation,) = [each for each in ended.said.splitlines() if each.startswith("::error")]
    assert annotation.startswith(
        f"::error file=suites/red/suite.star,line={line},title=check-prices::check-prices"
    )
    assert "| expected 100%, got 7" in ended.said
    summary = job.read("summary.md")
    assert "❌ Red: Failed" in summary
    assert "\n  | expected 100%, got 7\n" in summary
    assert job.cases()["check-prices"][0] == "failure"
    assert job.outputs()["status"] == "Failed"


def run_with_known_secrets(job: Job) -> tuple[Ended, list[str]]:
    """Run a job; return its tokens, too, which the client writes nowhere by itself."""
    spy = job.system.folder / "spy"
    spy.mkdir()
    (spy / "sitecustomize.py").write_text(f"""
from pathlib import Path
from partita_client.ci.job_log import JobLog
hide = JobLog.hide
def tell(log, secret):
    with Path({str(spy / "secrets")!r}).open("a") as file:
        print(secret, file=file)
    hide(log, secret)
JobLog.hide = tell
""")
    ended = job.run(PYTHONPATH=f"{spy}:{ROOT}")
    return ended, (spy / "secrets").read_text().split()


def test_no_token_is_printed_or_kept(system: CiSystem):
    """Invariant 19."""
    job = system.job("green")
    ended, secrets = run_with_known_secrets(job)

    assert [secret[:4] for secret in secrets] == ["eyJh", "pci_"], ended.said
    written = [path for path in job.folder.rglob("*") if path.is_file()]
    written += [path for path in system.up.folder.rglob("*") if path.is_file()]
    for secret in (*secrets, SECRET):
        assert secret not in ended.said
        for path in written:
            with suppress(FileNotFoundError):  # the folder of a run that has ended
                assert secret.encode() not in path.read_bytes(), path
    # no temporary folder is left, and the session has ended
    assert {path.name for path in job.folder.iterdir() if path.is_dir()} == {"suites"}
    answer = httpx.get(
        f"{system.up.url}/api/v1/executions", headers={"Authorization": f"Bearer {secrets[1]}"}
    )
    assert (answer.status_code, answer.json()["code"]) == (401, "token_revoked")


def test_a_job_with_its_token_in_a_variable_signs_in_once(system: CiSystem):
    token = system.token()
    job = system.job("green", GITHUB_ACTIONS="", CI_JOB_ID="77", PARTITA_ID_TOKEN=token)

    assert job.run().code == 0
    again = job.run()

    assert again.code == 3
    assert "does not let this job in (401): the CI token was used before" in again.said
    assert job.cases() == {"run": ["error"]}


def test_what_could_not_be_found_out_is_apart_from_red(system: CiSystem):
    elsewhere = system.job("green").run("--audience=https://elsewhere.example")
    away = system.job("green", PARTITA_URL="http://localhost:9").run("--patience=1s")
    hidden = system.job("hidden").run()
    late = system.job("slow")
    waited = late.run("--timeout=1s")

    assert (elsewhere.code, away.code, hidden.code, waited.code) == (3, 3, 3, 3)
    assert "(403): no trust rule lets this CI job in" in elsewhere.said
    assert "no connection to http://localhost:9" in away.said
    assert "(403): the trust rule of this CI session does not name this suite" in hidden.said
    assert "The run goes on" in waited.said
    assert late.cases() == {"run": ["error"]}
    run_id = late.outputs()["run-id"]
    with system.up.client() as client:
        client.post(f"/executions/{run_id}/cancel", json={})
    until(lambda: run_of(system, late)["status"] == "Canceled", within_s=60, what="it ends")
    canceled = late.run("--timeout=60s")
    assert (canceled.code, late.outputs()["run-id"]) == (3, run_id)
    assert "the run was canceled" in canceled.said


@pytest.mark.parametrize(
    ("changes", "options", "words"),
    [
        ({"PARTITA_URL": ""}, (), "no server is named for this CI job"),
        ({"PARTITA_URL": "http://partita.example"}, (), "must be an https address"),
        ({"suite": ""}, (), "no suite is named"),
        ({"suite": "no such suite"}, (), "refuses the launch"),
        ({"ACTIONS_ID_TOKEN_REQUEST_URL": ""}, (), "permissions: {id-token: write"),
        ({"GITHUB_ACTIONS": ""}, (), "PARTITA_ID_TOKEN is not set"),
        ({}, ("--profile=none.yaml",), "none.yaml"),
        ({}, ("--watch",), "leave out --watch"),
        ({}, ("-o", "json"), "leave out -o"),
        ({}, ("--cancel-in-progress",), "--cancel-in-progress needs --concurrency-group"),
    ],
    ids=str,
)
def test_a_wrong_use_says_what_to_do(system: CiSystem, changes, options, words: str):
    job = system.job("green")

    ended = job.run(*options, **changes)

    assert (ended.code, words in ended.said) == (2, True), ended.said
    assert job.cases() == {"run": ["error"]}


def test_a_step_gives_a_session_of_its_own_to_the_program(system: CiSystem):
    guide = (ROOT / "docs" / "guides" / "ci.md").read_text()
    *_, block = re.findall(r"^```bash\n(.+?)^```", guide, re.M | re.S)
    (system.folder / "bin").mkdir()
    (system.folder / "bin" / "partita").symlink_to(ROOT / "partita")
    job = system.job("green", GITHUB_ACTIONS="", HOME=str(system.folder / "home"))
    token = system.token()
    path = f"{system.folder / 'bin'}:{os.environ['PATH']}"

    block, variables = block.replace(" shop", " green"), {"PATH": path}
    ended = job.run_shell(block, PARTITA_ID_TOKEN=token, **variables)
    run_id = re.findall(r"run-[0-9a-f]{12}", ended.said)[0]
    more = f"partita run why {run_id} && partita run logs {run_id} && partita run show {run_id}"
    block = block.replace("partita run launch green --wait", more)
    again = system.token()
    shown = job.run_shell(f"{block}\npartita whoami", PARTITA_ID_TOKEN=again, **variables)

    assert ended.code == 0, ended.said
    assert "built" in shown.said, shown.said
    assert shown.code != 0
    assert "a CI session launches, reads, cancels and reruns runs" in shown.said
    assert "pci_" not in ended.said + shown.said


def test_the_action_runs_the_client_with_its_inputs(system: CiSystem):
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    (step,) = action["runs"]["steps"]
    given = {"server": system.up.url, "suite": "green", "audience": system.audience}
    inputs = {name: each.get("default", "") for name, each in action["inputs"].items()} | given
    variables = {
        name: inputs[re.fullmatch(r"\$\{\{ inputs\.([a-z-]+) \}\}", value)[1]]  # type: ignore[index]
        for name, value in step["env"].items()
    }
    assert len(variables) == len(inputs), "each input is used"

    job = system.job("green", **variables, GITHUB_ACTION_PATH=str(ROOT), PYTHONPATH="")
    for name in ("partita_client", "json", "kernel"):  # modules of the job's own checkout
        (job.folder / f"{name}.py").write_text("raise SystemExit(7)")
    ended = job.run_shell(step["run"], PYTHONPATH=str(job.folder))

    assert (ended.code, step["shell"]) == (0, "sh"), ended.said
    refused = job.run_shell(
        step["run"],
        PARTITA_PROFILE="-x $(touch pwned); touch pwned",
        PARTITA_STATUS="true",
        PARTITA_COMMENT="true",
        GITHUB_TOKEN="t",
        GITHUB_API_URL="http://github.example",
    )
    assert (refused.code, "-x $(touch pwned)" in refused.said) == (2, True), refused.said
    assert "no commit status and no comment: the address must be an https address" in refused.said
    assert not (job.folder / "pwned").exists()
    used = re.findall(r"steps\.run\.outputs\.([a-z-]+)", json.dumps(action["outputs"]))
    assert set(used) == job.outputs().keys()


def test_the_action_says_which_python_it_needs(system: CiSystem):
    (step,) = yaml.safe_load((ROOT / "action.yml").read_text())["runs"]["steps"]
    job = system.job("green", GITHUB_ACTION_PATH=str(ROOT))
    old = job.folder / "old" / "python3"
    old.parent.mkdir()
    old.write_text("#!/bin/sh\nexit 1\n")  # as each Python answers that is older
    old.chmod(0o700)
    tools = job.folder / "tools" / "Python" / "3.12.1" / "x64" / "bin" / "python3"

    refused = job.run_shell(step["run"], PATH=f"{old.parent}:/usr/bin:/bin")
    tools.parent.mkdir(parents=True)
    tools.symlink_to(sys.executable)
    more = {"RUNNER_TOOL_CACHE": str(job.folder / "tools"), "PARTITA_SUITE": "green"}
    more |= {"PATH": f"{old.parent}:/usr/bin:/bin", "PARTITA_AUDIENCE": system.audience}
    found = job.run_shell(step["run"], **more)

    assert (refused.code, "needs Python 3.11 or newer" in refused.said) == (2, True), refused.said
    assert found.code == 0, found.said


@pytest.fixture(scope="module")
def wheel_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the client's wheel of this tree, as a repository has it."""
    folder = tmp_path_factory.mktemp("wheels")
    build_wheel(ROOT / "partita_client", folder)
    return folder


@pytest.mark.parametrize(
    ("steps", "variables"),
    [
        (gitlab_steps, {"GITLAB_CI": "true", "CI_JOB_ID": "91", "CI_COMMIT_REF_NAME": "main"}),
        (jenkins_steps, {"BUILD_TAG": "jenkins-shop-91", "GIT_BRANCH": "main"}),
    ],
    ids=["gitlab", "jenkins"],
)
def test_an_example_goes_from_an_empty_machine_to_a_green_check(
    system, wheel_folder, steps, variables
):
    """The image of GitLab has pip in a Python of its own, as the environment here."""
    token = system.token()
    own = {"GITHUB_ACTIONS": "", "PYTHONPATH": "", "PARTITA_ID_TOKEN": token}
    job = system.job("green", **variables, **own)
    shutil.copytree(wheel_folder, job.folder / "ci")
    subprocess.run([sys.executable, "-m", "venv", job.folder / "image"], check=True)
    script = "\n".join(["set -e", *steps()]).replace("launch shop", "launch green")

    ended = job.run_shell(script, PATH=f"{job.folder / 'image' / 'bin'}:{os.environ['PATH']}")

    assert ended.code == 0, ended.said
    assert "Healthy" in ended.said
    assert ET.fromstring(job.read("junit.xml")).tag == "testsuites"
    assert (job.folder / "partita-artifacts.zip").read_bytes().startswith(b"PK")


def test_the_examples_name_what_the_client_reads():
    read = "\n".join(path.read_text() for path in (ROOT / "partita_client").rglob("*.py"))
    names = set(re.findall(r"(?:PARTITA|GITLAB)_[A-Z_]+", read))
    gitlab = yaml.safe_load((EXAMPLES / "gitlab-ci.yml").read_text())["partita"]
    workflow = yaml.safe_load((EXAMPLES / "github-workflow.yml").read_text())
    used = set(re.findall(r"PARTITA_[A-Z_]+", (EXAMPLES / "Jenkinsfile").read_text()))

    assert {*used, *gitlab["variables"], *gitlab["id_tokens"]} <= names
    assert workflow["permissions"] == {"contents": "read", "id-token": "write"}
    steps = workflow["jobs"]["shop"]["steps"]
    inputs = yaml.safe_load((ROOT / "action.yml").read_text())["inputs"]
    assert steps[1]["with"].keys() <= inputs.keys()
