"""The suites that people start from, and modules, on a real Docker engine."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.images import image
from tests.support.up import Up, runtime_of, write_suite

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "oci-suites"
pytestmark = [pytest.mark.docker, pytest.mark.slow]

VISUAL = """
load("@partita/http", "site", "url")
load("@partita/playwright", "visual_diff")

IMAGE = "partita/playwright:1"
before = site("before", "pages/a")
same = site("same", "pages/a")
other = site("other", "pages/b")

def compared(name, pages, after, **kw):
    address, needed = url(pages, ""), [pages, after]
    return visual_diff(
        name, "look.spec.ts", address, "baseline", image = IMAGE, after = needed, **kw
    )

made = compared("made", before, [], env = {"UPDATE_BASELINE": "1"})
compared("unchanged", same, made)
changed = compared("changed", other, made, continue_on_failure = True)
log.info("the change was seen", name = "seen", on_failure = changed)
"""
SPEC = """
import { expect, test } from "@playwright/test";

for (const path of (process.env.PATHS ?? "").split(",")) {
  test(`looks the same: ${path}`, async ({ page }) => {
    await page.goto(path);
    await expect(page).toHaveScreenshot("page.png");
  });
}
"""
POSTGRES = """
load("@partita/postgres", "insert", "pg", "query", "select", "upsert")

HOSTILE = "O'Hara; DROP TABLE t; -- $(id) `id` \\\\ %"
db = pg(
    image = "partita/postgres:15",
    database = "it's \\"quoted\\"",
    user = "a b",
    password = "p' $x \\\\ y",
)
made = query(db, "CREATE TABLE t (id int PRIMARY KEY, full_name text)", name = "made")
first = [{"id": 1, "full_name": HOSTILE}, {"id": 2, "full_name": None}]
second = [{"id": 2, "full_name": "x"}, {"id": 3, "full_name": ""}]
rows = insert(db, "t", first, after = made)
more = upsert(db, "t", second, "id", after = rows)
select(db, "t", where = {"full_name": HOSTILE}, expect_rows = 1, name = "kept", after = more)
select(db, "t", expect_rows = 3, name = "all", after = more)
select(db, "t", expect_rows = 7, name = "wrong", after = more, expect_exit = 1)
"""


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Up]:
    suites = tmp_path / "suites"
    suites.mkdir()
    made = Up(tmp_path / "up", SUITES_DIR=str(suites), UP_DEMO="0", **runtime_of("docker"))
    yield made
    made.end()


def healthy_steps(up: Up, suite: str, **launch: str) -> dict[str, dict[str, Any]]:
    """The steps of a run by id, which must be healthy."""
    run = run_of(up, suite, **launch)
    failed = {
        step["id"]: (
            step["status"],
            [line["text"] for line in up.lines(run["id"], source=step["id"])],
        )
        for step in run["steps"]
        if step["status"] not in ("healthy", "skipped")
    }
    assert run["status"] == "Healthy", failed
    return {step["id"]: step for step in run["steps"]}


def run_of(up: Up, suite: str, **launch: str) -> dict[str, Any]:
    up.start()
    with up.client() as client:
        answer = client.post("/executions", json={"suiteId": suite, **launch})
    assert answer.status_code == 201, answer.text
    return up.wait_for(answer.json()["id"], within_s=240)


def copy(up: Up, name: str) -> None:
    shutil.copytree(EXAMPLES / name, Path(up.environment["SUITES_DIR"]) / name)


def test_a_web_service_with_its_servers_and_a_browser(up: Up) -> None:
    for name in ("partita/postgres:15", "partita/web-service:1", "partita/playwright:1"):
        image(name)
    copy(up, "web-service")

    steps = healthy_steps(up, "web-service")
    assert {"pages-chromium", "accessible-chromium", "nothing-left"} <= steps.keys()


def test_the_contracts_of_a_monorepo(up: Up) -> None:
    copy(up, "contracts")
    assert len(healthy_steps(up, "contracts")) == 12


def test_a_broken_contract_fails_its_provider_test_and_no_consumer(up: Up) -> None:
    copy(up, "contracts")
    run = run_of(up, "contracts", profile="broken.yaml")

    assert run["status"] == "Failed"
    failed = [step["id"] for step in run["steps"] if step["status"] == "failed"]
    assert failed == ["provider-prices"]
    said = [line["text"] for line in up.lines(run["id"], source="provider-prices")]
    assert any("body.cents must be of type integer" in line for line in said), said


def test_visual_differences_between_two_versions(up: Up) -> None:
    image("partita/playwright:1")
    page = "<!doctype html><html lang=en><title>x</title><body style='background:{}'><h1>Hello</h1>"
    files = {
        "tests/look.spec.ts": SPEC,
        "pages/a/index.html": page.format("white"),
        "pages/b/index.html": page.format("teal"),
    }
    write_suite(Path(up.environment["SUITES_DIR"]), "visual", VISUAL, files)

    steps = healthy_steps(up, "visual")
    assert steps["unchanged-chromium"]["status"] == "healthy"
    assert steps["changed-chromium"]["status"] == "failed"
    assert steps["seen"]["status"] == "healthy"


def test_values_reach_postgres_as_they_are(up: Up) -> None:
    image("partita/postgres:15")
    write_suite(Path(up.environment["SUITES_DIR"]), "quoted", POSTGRES, {})

    assert healthy_steps(up, "quoted")["kept"]["status"] == "healthy"
