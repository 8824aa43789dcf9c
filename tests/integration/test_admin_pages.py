"""The admin in a browser: every list and row in light and dark, its links and its actions."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from django.contrib.admin.models import LogEntry
from playwright.sync_api import Browser, Page, expect

from apps.accounts.models import User
from apps.accounts.services.sign_up import sign_up
from apps.agents.api import is_draining
from kernel import clock
from sync_stack.orchestrator.models import Drift, LedgerTarget, Task
from tests.apps.executions.runs import Worker
from tests.integration.pages import three_steps
from tests.support.browser import PASSWORD, Reader, Server, fill_sign_in, reader

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
# of each text that has a color of its own, against the first background behind it
CONTRASTS = """
() => {
  const parts = (color) => (color.match(/[\\d.]+/g) ?? []).map(Number);
  const light = ([r, g, b]) => [r, g, b]
    .map((part) => part / 255)
    .map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4))
    .reduce((sum, part, at) => sum + part * [0.2126, 0.7152, 0.0722][at], 0);
  const behind = (element) => {
    const [r, g, b, alpha = 1] = parts(getComputedStyle(element).backgroundColor);
    return alpha === 1 ? [r, g, b] : behind(element.parentElement);
  };
  return [...document.querySelectorAll(".state")].map((element) => {
    const pair = [light(parts(getComputedStyle(element).color)), light(behind(element))];
    const [low, high] = pair.sort((one, other) => one - other);
    return [element.dataset.state, (high + 0.05) / (low + 0.05)];
  });
}
"""
STATES = (
    *("healthy", "failed", "running", "canceled", "queued", "in_sync", "drifted", "flapping"),
    *("online", "offline", "draining"),
)


@pytest.fixture
def root(ada: Reader) -> Reader:
    """An administrator, and rows of every kind."""
    User.objects.filter(email="ada@example.org").update(is_admin=True)
    three_steps(ada)
    worker = Worker()
    worker.claim()
    now = clock.now()
    place = {"rule_id": "shop", "repo": "acme/shop", "env": "production"}
    Task.objects.create(id="1", kind="manual", state="FAILED", idempotency_key="a", created_at=now)
    LedgerTarget.objects.create(id="2", last_task_id="1", content=b"", status="drifted", **place)
    Drift.objects.create(
        id="3", unit_id="2", state="open", first_seen_at=now, last_seen_at=now, **place
    )
    ada.open("/admin/")
    return ada


def picture(page: Page, name: str) -> None:
    """Keep a picture where ADMIN_PICTURES says, for somebody to look at."""
    if folder := os.environ.get("ADMIN_PICTURES"):
        page.screenshot(path=str(Path(folder) / f"{name}.png"), full_page=True)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_list_and_row_keeps_the_content_policy(root: Reader, scheme: str):
    """The fixture `ada` fails for what the console says, such as a refused style."""
    page = root.page
    page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    picture(page, f"index-{scheme}")
    lists = page.locator("#content-main tr th a").evaluate_all("links => links.map((a) => a.href)")
    assert len(lists) > 15

    rows = 0
    for address in lists:
        page.goto(address)
        picture(page, f"list-{address.strip('/').rpartition('/')[2]}-{scheme}")
        row = page.locator("#result_list tbody th a").first
        if row.count():
            row.click()
            expect(page.locator("#content-main, #content form").first).to_be_visible()
            picture(page, f"row-{address.strip('/').rpartition('/')[2]}-{scheme}")
            rows += 1

    assert rows > 8


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_states_can_be_read_in_light_and_dark(root: Reader, scheme: str):
    page = root.page
    page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    root.open("/admin/executions/step/")
    page.evaluate(
        """(states) => {
          const mark = document.querySelector(".state");
          for (const state of states) {
            const copy = mark.cloneNode();
            [copy.dataset.state, copy.textContent] = [state, state];
            mark.after(copy);
          }
        }""",
        STATES,
    )

    contrasts = dict(page.evaluate(CONTRASTS))

    assert contrasts.keys() >= set(STATES)
    assert {state: ratio for state, ratio in contrasts.items() if ratio < 4.5} == {}


def test_the_scheme_can_be_chosen(root: Reader):
    page = root.page
    page.emulate_media(color_scheme="light")
    background = "() => getComputedStyle(document.body).backgroundColor"
    assert page.evaluate(background) == "rgb(255, 255, 255)"

    for _ in range(3):  # auto, light, dark
        if page.locator("html[data-theme=dark]").count():
            break
        page.locator("button.theme-toggle").first.click()
    root.open("/admin/agents/agent/")

    assert page.evaluate(background) == "rgb(18, 18, 18)"


def test_an_agent_is_drained_on_a_phone(root: Reader):
    page = root.page
    page.set_viewport_size({"width": 390, "height": 844})
    root.open("/admin/agents/agent/")
    page.locator("input.action-select").check()
    page.locator("select[name=action]").select_option("drain")
    page.get_by_role("button", name="Go").click()
    expect(page.get_by_role("heading", name="Drain these agents?")).to_be_visible()
    picture(page, "drain-phone")
    page.get_by_role("link", name="No, go back").click()
    assert not is_draining("runner-1")

    page.locator("input.action-select").check()
    page.locator("select[name=action]").select_option("drain")
    page.get_by_role("button", name="Go").click()
    page.get_by_role("button", name="Yes, do it").click()

    expect(page.get_by_text("runner-1: draining")).to_be_visible()
    assert is_draining("runner-1")
    page.get_by_role("link", name="runner-1", exact=True).click()
    page.get_by_role("link", name="History").click()
    expect(page.get_by_role("cell", name="draining")).to_be_visible()
    assert LogEntry.objects.get().user.email == "ada@example.org"


def test_links_lead_from_a_run_to_its_steps_and_back(root: Reader):
    page = root.page
    root.open("/admin/executions/execution/")
    page.get_by_role("link", name="steps").click()
    expect(page.locator("#result_list tbody tr")).to_have_count(3)
    page.locator("#result_list").get_by_role("link", name="run", exact=True).first.click()
    expect(page.get_by_role("link", name="workspace")).to_be_visible()


def test_members_and_strangers_see_nothing_of_it(root: Reader, browser: Browser, server: Server):
    sign_up(full_name="Bob", email="bob@example.org", password=PASSWORD)
    with reader(browser, server) as bob:
        bob.open("/admin/accounts/user/")
        with bob.page.expect_response(lambda answer: answer.status == 403):
            fill_sign_in(bob.page, {"email": "bob@example.org", "password": PASSWORD})

        expect(bob.page.get_by_text("ada@example.org")).to_have_count(0)
