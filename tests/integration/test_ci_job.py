"""A CI job without a stored key: from its own OIDC token to a check, by examples/ci/launch.sh."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import httpx
import pytest
import yaml

from tests.support.ci_issuer import github_claims
from tests.support.oidc import ci_provider
from tests.support.parts import give_up
from tests.support.processes import ROOT, until
from tests.support.up import Up, write_suite

pytestmark = pytest.mark.slow
SCRIPT = ROOT / "examples" / "ci" / "launch.sh"
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
            "PARTITA_SERVER": self.system.up.url,
            "PARTITA_SUITE": self.suite,
            "PARTITA_AUDIENCE": self.system.audience,
            "PARTITA_PAUSE_S": "0.2",
            "TMPDIR": str(self.folder),
        } | self.environment

    def run(self, command: str = f"sh {SCRIPT}", **environment: str) -> Ended:
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
    if not shutil.which("jq"):
        give_up("needs the program jq")
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
    assert "```\nexpected 100%, got 7\n```" in summary
    assert job.cases()["check-prices"][0] == "failure"
    assert job.outputs()["status"] == "Failed"


def test_no_token_is_printed_or_kept(system: CiSystem):
    """Invariant 19."""
    job = system.job("green")
    ended = job.run()

    masked = re.findall(r"^::add-mask::(.+)$", ended.said, re.M)
    assert [secret[:4] for secret in masked] == ["eyJh", "pci_"]
    written = [path for path in job.folder.rglob("*") if path.is_file()]
    written += [path for path in system.up.folder.rglob("*") if path.is_file()]
    said = re.sub(r"^::add-mask::.*$", "", ended.said, flags=re.M).encode()
    for secret in (*masked, SECRET):
        assert secret.encode() not in said
        for path in written:
            assert secret.encode() not in path.read_bytes(), path
    # nothing of the script is left, and its session has ended
    assert not [path for path in job.folder.iterdir() if path.name.startswith("tmp.")]
    answer = httpx.get(
        f"{system.up.url}/api/v1/executions", headers={"Authorization": f"Bearer {masked[1]}"}
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
    elsewhere = system.job("green", PARTITA_AUDIENCE="https://elsewhere.example").run()
    away = system.job("green", PARTITA_SERVER="http://localhost:9").run()
    hidden = system.job("hidden").run()
    late = system.job("slow", PARTITA_TIMEOUT_S="1")
    waited = late.run()

    assert (elsewhere.code, away.code, hidden.code, waited.code) == (3, 3, 3, 3)
    assert "(403): no trust rule lets this CI job in" in elsewhere.said
    assert "does not answer" in away.said
    assert "(403): the trust rule of this CI session does not name this suite" in hidden.said
    assert "The run goes on" in waited.said
    assert late.cases() == {"run": ["error"]}
    run_id = late.outputs()["run-id"]
    with system.up.client() as client:
        client.post(f"/executions/{run_id}/cancel", json={})
    until(lambda: run_of(system, late)["status"] == "Canceled", within_s=60, what="it ends")
    canceled = late.run(PARTITA_TIMEOUT_S="60")
    assert (canceled.code, late.outputs()["run-id"]) == (3, run_id)
    assert "the run was canceled" in canceled.said


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"PARTITA_SERVER": ""}, "PARTITA_SERVER is not set"),
        ({"PARTITA_SERVER": "http://partita.example"}, "must be an https address"),
        ({"PARTITA_SUITE": ""}, "PARTITA_SUITE is not set"),
        ({"PARTITA_SUITE": "no such suite"}, "refuses the launch"),
        ({"ACTIONS_ID_TOKEN_REQUEST_URL": ""}, "permissions: {id-token: write"),
        ({"GITHUB_ACTIONS": ""}, "PARTITA_ID_TOKEN is not set"),
        ({"PARTITA_PROFILE": "none.yaml"}, "none.yaml"),
    ],
    ids=str,
)
def test_a_wrong_use_says_what_to_do(system: CiSystem, changes: dict[str, str], words: str):
    ended = system.job("green").run(**changes)

    assert (ended.code, words in ended.said) == (2, True), ended.said


def test_a_step_gives_a_session_of_its_own_to_the_program(system: CiSystem):
    guide = (ROOT / "docs" / "guides" / "ci.md").read_text()
    (block,) = re.findall(r"^```bash\n(.+?)^```", guide, re.M | re.S)
    (system.folder / "bin").mkdir()
    (system.folder / "bin" / "partita").symlink_to(ROOT / "partita")
    job = system.job("green", GITHUB_ACTIONS="", HOME=str(system.folder / "home"))
    token = system.token()
    path = f"{system.folder / 'bin'}:{os.environ['PATH']}"

    ended = job.run(block, PATH=path, PARTITA_ID_TOKEN=token)
    run_id = re.findall(r"run-[0-9a-f]{12}", ended.said)[0]
    more = f"partita run why {run_id} && partita run logs {run_id} && partita run show {run_id}"
    block = block.replace('partita run launch "$PARTITA_SUITE" --wait', more)
    shown = job.run(f"{block}\npartita whoami", PATH=path, PARTITA_ID_TOKEN=system.token())

    assert ended.code == 0, ended.said
    assert "built" in shown.said, shown.said
    assert shown.code != 0
    assert "a CI session launches, reads, cancels and reruns runs" in shown.said
    assert "pci_" not in ended.said + shown.said


def test_the_action_runs_the_script_with_its_inputs(system: CiSystem):
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    (step,) = action["runs"]["steps"]
    given = {"server": system.up.url, "suite": "green", "audience": system.audience}
    inputs = {name: each.get("default", "") for name, each in action["inputs"].items()} | given
    variables = {
        name: inputs[re.fullmatch(r"\$\{\{ inputs\.([a-z-]+) \}\}", value)[1]]  # type: ignore[index]
        for name, value in step["env"].items()
    }
    assert len(variables) == len(inputs), "each input is used"

    job = system.job("green", **variables, GITHUB_ACTION_PATH=str(ROOT))
    ended = job.run(step["run"])

    assert (ended.code, step["shell"]) == (0, "sh"), ended.said
    used = re.findall(r"steps\.run\.outputs\.([a-z-]+)", json.dumps(action["outputs"]))
    assert set(used) == job.outputs().keys()


def test_the_examples_name_what_the_script_reads():
    names = set(re.findall(r"PARTITA_[A-Z_]+", SCRIPT.read_text()))
    gitlab = yaml.safe_load((SCRIPT.parent / "gitlab-ci.yml").read_text())["partita"]
    workflow = yaml.safe_load((SCRIPT.parent / "github-workflow.yml").read_text())
    used = set(re.findall(r"PARTITA_[A-Z_]+", (SCRIPT.parent / "Jenkinsfile").read_text()))

    assert {*used, *gitlab["variables"], *gitlab["id_tokens"]} <= names
    assert workflow["permissions"] == {"contents": "read", "id-token": "write"}
    steps = workflow["jobs"]["shop"]["steps"]
    inputs = yaml.safe_load((ROOT / "action.yml").read_text())["inputs"]
    assert steps[1]["with"].keys() <= inputs.keys()
