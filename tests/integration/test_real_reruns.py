"""A real run of forty steps of which three fail, run again by API, page and command: one plan."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from tests.support.browser import fill_sign_in
from tests.support.up import Up, up_with_suite

SUITE = """
load("@partita/runtime", "env", "task", "test")

IMAGE = "busybox:1.36"
SHARED = "$PARTITA_WORKSPACE_DIR"
# db makes what seed reads, and seed what the last tests read: a new environment has neither
db = task.run(name = "db", image = IMAGE, commands = ["echo ready > %s/db" % SHARED])
seed = task.run(name = "seed", image = IMAGE, after = [db],
                commands = ["cat %s/db" % SHARED, "echo row > %s/rows" % SHARED])
[test.run(name = "t%d" % n, image = IMAGE, command = ["true"]) for n in range(34)]
# the three wait for each other, so that none fails before the others have begun
meet = "while ! [ -f {0}/a -a -f {0}/b -a -f {0}/c ]; do sleep 0.05; done".format(SHARED)
last = [
    test.run(name = "check-" + name, image = IMAGE, after = [seed], env = {"BROKEN": env["BROKEN"]},
             commands = ["cat %s/rows" % SHARED, "touch %s/%s" % (SHARED, name), meet,
                         "exit $BROKEN"])
    for name in ["a", "b", "c"]
]
task.run(name = "dump", image = IMAGE, on_failure = last, commands = ["cat %s/rows" % SHARED])
"""
PROFILES = {
    "broken.yaml": "default: true\nenv: {BROKEN: '3'}\n",
    "fixed.yaml": "env: {BROKEN: '0'}\n",
}
CHECKS = {"check-a", "check-b", "check-c"}
AGAIN = {"db", "seed", "dump"} | CHECKS


@pytest.fixture(
    scope="module", params=["process", pytest.param("docker", marks=pytest.mark.docker)]
)
def up(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    folder = tmp_path_factory.mktemp("reruns")
    profiles = {f"profiles/{name}": text for name, text in PROFILES.items()}
    with up_with_suite(folder, request.param, "forty", SUITE, profiles) as up:
        yield up


def fail(up: Up) -> dict[str, Any]:
    """Return a run of forty steps of which three have failed."""
    detail = up.wait_for(up.launch("forty"))
    statuses = {step["id"]: step["status"] for step in detail["steps"]}
    assert len(statuses) == 40
    assert {step for step, status in statuses.items() if status == "failed"} == CHECKS
    return detail


@pytest.fixture(scope="module")
def failed(up: Up) -> dict[str, Any]:
    """One for the tests that do not count its attempts."""
    return fail(up)


def skipped(detail: dict[str, Any]) -> set[str]:
    return {step["id"] for step in detail["steps"] if step.get("reason") == "not_selected"}


@pytest.mark.browser
def test_api_page_and_command_show_one_plan(up: Up, failed: dict[str, Any], browser: Browser):
    with up.client() as client:
        body = {"scope": "failed", "dryRun": True}
        by_api = client.post(f"/executions/{failed['id']}/rerun", json=body).json()
    by_command = up.json("run", "rerun", failed["id"], "--failed", "--dry-run")
    said = up.partita("run", "rerun", failed["id"], "--failed", "--dry-run").stdout

    assert by_command == by_api
    texts = {step["id"]: step["text"] for step in by_api["steps"]}
    assert set(texts) == AGAIN
    for step, text in texts.items():
        assert re.search(rf"^  {step} +{re.escape(text)}$", said, re.MULTILINE)
    assert by_api["sentence"] in said
    assert plan_on_the_page(browser, up, failed["id"]) == texts


def plan_on_the_page(browser: Browser, up: Up, run_id: str) -> dict[str, str]:
    with browser.new_page() as page:
        page.goto(f"{up.url}/sign-in?next=/executions/{run_id}")
        fill_sign_in(page, up.credentials())
        page.get_by_role("button", name="Run again").click()
        plan = page.locator("[data-rerun-plan]")
        expect(plan).to_have_attribute("aria-busy", "false")
        rows = plan.locator("[data-rerun-steps] li").all_inner_texts()
    return dict(row.split(" ", 1) for row in rows)


def test_a_rerun_of_what_failed_runs_that_and_what_it_needs(up: Up):
    failed = fail(up)
    with up.client() as client:
        answer = client.post(f"/executions/{failed['id']}/rerun", json={"scope": "failed"})
    second = up.wait_for(answer.json()["id"])

    assert second["status"] == "Failed"
    ran = {step["id"] for step in second["steps"] if step["status"] in ("healthy", "failed")}
    assert ran == AGAIN
    assert len(skipped(second)) == 34

    watched = up.partita("run", "rerun", second["id"], "--failed", "--watch")
    assert watched.returncode == 10, watched.stderr
    third = up.detail(re.search(r"run-[0-9a-f]{12}", watched.stdout)[0])  # type: ignore[index]
    assert skipped(third) == skipped(second)  # the command gives what the API gives

    fixed = up.partita(
        "run", "rerun", third["id"], "--failed", "--profile", "fixed.yaml", "--watch",
        "-o", "json", "--yes",
    )  # fmt: skip
    assert fixed.returncode == 0, fixed.stderr
    last = json.loads(fixed.stdout)
    assert (last["status"], last["profile"]) == ("Healthy", "fixed.yaml")
    assert skipped(last) == skipped(second)
    assert "6 of 40 steps run again" in fixed.stderr

    shown = up.partita("run", "show", third["id"]).stdout
    assert "attempts: 1 failed → 2 failed → 3 failed → 4 healthy" in shown
    numbers = [each["number"] for each in up.detail(failed["id"])["attempts"]]
    assert numbers == [1, 2, 3, 4]


def test_what_differs_since_the_healthy_run_is_the_same_everywhere(up: Up, failed: dict[str, Any]):
    up.json("run", "rerun", failed["id"], "--profile", "fixed.yaml", "--yes")
    green = up.json("run", "list", "--suite", "forty", "--limit", "1")["executions"][0]["id"]
    assert up.wait_for(green)["status"] == "Healthy"
    red = up.wait_for(up.json("run", "rerun", failed["id"], "--yes")["id"])

    found = up.get(f"/executions/{red['id']}/since-green").json()

    assert found["green"]["id"] == green
    kinds = {(each["kind"], each["name"]) for each in found["differences"]}
    assert kinds >= {("profile", ""), ("env", "BROKEN")}
    assert up.json("run", "show", red["id"], "--since-green")["sinceGreen"] == found
    refused = up.partita("run", "rerun", green, "--failed", "--dry-run")
    assert refused.returncode == 5
    assert "nothing_to_rerun" in refused.stderr
    unknown = up.partita("run", "rerun", red["id"], "--step", "chek-a", "--dry-run")
    assert "did you mean check-a?" in unknown.stderr
