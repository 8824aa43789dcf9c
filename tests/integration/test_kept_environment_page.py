"""The kept environment on the page of its run: the countdown, Extend, End now, and the dialogs."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from apps.accounts.models import Membership
from apps.executions import api as executions
from apps.executions.models import Execution
from apps.executions.services.kept_environments import end as end_keeping
from kernel import clock
from tests.apps.executions.runs import Run, Worker
from tests.integration.pages import SCREENS, findings, kept_run, picture
from tests.support.browser import Reader

pytestmark = [
    pytest.mark.browser,
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("nobody_admits"),
]


@pytest.fixture
def kept(ada: Reader, worker: Worker) -> Run:
    return kept_run(ada, worker)


def panel(page: Page) -> Any:
    return page.locator("[data-kept-until]")


def test_the_page_counts_down_and_extends(ada: Reader, kept: Run):
    page = ada.page
    ada.open(f"/executions/{kept.id}")
    left = panel(page).locator("[data-kept-left]")
    expect(left).to_have_text(re.compile(r"^(30:00|29:\d\d)$"))
    panel(page).get_by_label("Extend to").select_option("1 h")
    panel(page).get_by_role("button", name="Extend").click()
    expect(left).to_have_text(re.compile(r"^(60:00|59:\d\d)$"))
    assert kept.row.keep_alive_ms == 3_600_000


def test_five_minutes_before_the_end_the_page_warns(ada: Reader, kept: Run):
    soon = clock.now() + timedelta(minutes=4)
    Execution.objects.filter(pk=kept.pk).update(keep_alive_until=soon)
    ada.open(f"/executions/{kept.id}")
    expect(panel(ada.page).get_by_role("status")).to_have_text(
        "It ends soon; extend it to keep it."
    )


def test_end_now_asks_first_and_the_page_says_who_ended_it(ada: Reader, kept: Run):
    page = ada.page
    ada.open(f"/executions/{kept.id}")
    panel(page).get_by_role("button", name="End now").click()
    question = page.get_by_role("dialog", name="End the kept environment?")
    expect(question.get_by_role("button", name="Keep it")).to_be_focused()
    question.get_by_role("button", name="Keep it").click()
    assert executions.is_kept(kept.id)
    panel(page).get_by_role("button", name="End now").click()
    question.get_by_role("button", name="End now").click()
    expect(page.locator(".run-kept")).to_contain_text("ended by Ada")
    assert not executions.is_kept(kept.id)


def test_who_looks_on_sees_what_another_one_changed(ada: Reader, kept: Run):
    page = ada.page
    page.clock.install()
    ada.open(f"/executions/{kept.id}")
    end_keeping(kept.principal, kept.id)
    page.clock.fast_forward(20_000)
    expect(page.locator(".run-kept")).to_contain_text("was kept until")


def test_a_viewer_sees_the_time_and_no_buttons(ada: Reader, kept: Run):
    Membership.objects.update(role="viewer")
    ada.open(f"/executions/{kept.id}")
    expect(panel(ada.page)).to_contain_text("is kept until")
    expect(panel(ada.page).get_by_role("button")).to_have_count(0)


@pytest.mark.parametrize("screen", SCREENS)
def test_the_page_fits_its_window_and_axe_finds_nothing(
    ada: Reader, axe: str, kept: Run, screen: tuple[int, int, Any]
):
    width, height, scheme = screen
    page = ada.page
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": width, "height": height})
    ada.open(f"/executions/{kept.id}")
    expect(panel(page).locator("[data-kept-left]")).not_to_be_empty()
    moves = "document.documentElement.scrollWidth > document.documentElement.clientWidth"
    assert not page.evaluate(moves)
    picture(page, f"kept-page-{width}-{scheme}")
    assert findings(page, axe) == []
    panel(page).get_by_role("button", name="End now").click()
    picture(page, f"kept-end-{width}-{scheme}")
    assert findings(page, axe) == []
