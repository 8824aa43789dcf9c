"""The page of a real `shop` run in Chromium: it shows what the streams tell, and nothing else."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import groupby
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from tests.support import sse
from tests.support.browser import fill_sign_in
from tests.support.parts import need
from tests.support.up import Up

pytestmark = [pytest.mark.docker, pytest.mark.browser]
# every status that a step of the list ever showed, in order
WATCH = """
window.shown = {};
const note = (step) => (window.shown[step.dataset.step] ??= []).push(step.dataset.status);
const what = { subtree: true, childList: true, attributes: true, attributeFilter: ["data-status"] };
const look = () => document.querySelectorAll(".step").forEach(note);
new MutationObserver(look).observe(document, what);
"""
# the log draws only what is in sight: scrolled through from its start, line by number
READ_LOG = """
async () => {
  const log = document.getElementById("log"), lines = {};
  for (let at = 0; ; at += 200) {
    log.scrollTop = at;
    do await new Promise((done) => setTimeout(done, 60));
    while (log.querySelector('[data-kind="loading"]'));
    for (const row of log.querySelectorAll(".log-row"))
      lines[row.querySelector(".log-no").dataset.line] =
        [row.querySelector(".log-source").textContent, row.querySelector(".log-text").textContent];
    if (at > log.scrollHeight) return lines;
  }
}
"""


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    folder = tmp_path_factory.mktemp("page") / "up"
    engine = need("TEST_DOCKER_HOST", "a Docker engine")
    with Up(folder, UP_DEMO="0", DOCKER_HOST=engine) as up:
        yield up


@pytest.fixture
def page(browser: Browser, up: Up) -> Iterator[Page]:
    """Signed in with the printed account; the console must stay silent."""
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    page, complaints = context.new_page(), []
    page.on("console", lambda said: complaints.append(said.text) if said.type == "error" else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(f"{up.url}/sign-in")
    fill_sign_in(page, up.credentials())
    page.wait_for_url(f"{up.url}/")
    yield page
    context.close()
    assert complaints == []


def test_the_page_of_shop_shows_what_the_streams_told(page: Page, up: Up):
    """Invariants 2, 10."""
    with up.client() as client:
        run_id = client.post("/executions", json={"suiteId": "shop"}).json()["id"]
        page.add_init_script(WATCH)
        page.goto(f"{up.url}/executions/{run_id}")
        events = sse.frames(sse.recorded(client, f"/executions/{run_id}/events"))
        logs = sse.frames(sse.recorded(client, f"/executions/{run_id}/logs"))
    expect(page.locator(".run-title .status-text")).to_have_text("Healthy", timeout=30_000)
    expect(page.locator("#log-link")).to_have_attribute("data-link", "ended")
    expect(page).to_have_title("Healthy · Shop · Partita")

    told = [frame.data["event"] for frame in events[:-1]]
    last = {event["source"]: event["status"] for event in told if event["source"] != "execution"}
    for step, status in last.items():
        expect(page.locator(f'.step[data-step="{step}"]')).to_have_attribute("data-status", status)
        expect(page.locator(f'.node[data-node="{step}"]')).to_have_attribute("data-status", status)
    assert page.locator(".step").count() == len(last) == 11
    expect(page.locator(".scale-words")).to_have_text("10 healthy1 skipped")
    expect(page.locator('.step[data-step="warm-cache"] .step-kind')).to_contain_text("attempt 2")
    assert_shown_in_order(page.evaluate("window.shown"), told)

    shown = page.evaluate(READ_LOG)
    lines = [(each.data["line"]["source"], each.data["line"]["text"]) for each in logs[:-1]]
    assert [tuple(shown[str(n)]) for n in range(1, len(lines) + 1)] == lines


def assert_shown_in_order(shown: dict[str, list[str]], told: list[dict[str, Any]]) -> None:
    """What a step showed is what its events told, in their order; none was made up."""
    live = 0
    for step, statuses in shown.items():
        through = iter(["pending", *(each["status"] for each in told if each["source"] == step)])
        seen = [status for status, _ in groupby(statuses)]
        assert all(status in through for status in seen), f"{step}: {seen}"
        live += len(seen) > 1
    assert live >= 5, "the page was there while it happened"


def test_a_press_before_the_scripts_are_there_counts(page: Page, up: Up):
    def slowly(route: Route) -> None:
        time.sleep(1)
        route.continue_()

    page.route("**/launch.js", slowly)
    page.goto(f"{up.url}/", wait_until="commit")
    page.get_by_role("button", name="Launch", exact=True).click()
    expect(page.get_by_role("dialog", name="Launch a suite")).to_be_visible()
