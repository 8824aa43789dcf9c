"""The page of a failed run of forty steps tells why, at the first look."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.apps.executions.runs import Run, Worker
from tests.integration.pages import DESK_AND_PHONE, ERROR, failed_run, picture
from tests.support.browser import Reader

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def run(ada: Reader, worker: Worker) -> Run:
    return failed_run(ada, worker)


@pytest.fixture(params=["light", "dark"])
def page(request: pytest.FixtureRequest, ada: Reader) -> Page:
    ada.page.emulate_media(color_scheme=request.param)
    return ada.page


def in_view(page: Page, text: str) -> bool:
    """Whether the first element that shows `text` is wholly within the window."""
    box = page.get_by_text(text).first.bounding_box()
    size = page.viewport_size
    assert box is not None
    assert size is not None
    return box["y"] >= 0 and box["y"] + box["height"] <= size["height"]


@pytest.mark.parametrize("screen", DESK_AND_PHONE)
def test_the_programs_own_error_is_in_sight_on_opening(
    ada: Reader, page: Page, run: Run, screen: tuple[int, int]
):
    page.set_viewport_size({"width": screen[0], "height": screen[1]})

    ada.open(f"/executions/{run.id}")

    expect(page.locator(".last-words").first).to_contain_text(ERROR)
    assert "[31m" not in page.locator(".last-words").first.inner_text()
    assert in_view(page, ERROR)
    expect(page.get_by_text("expected 3 items, got 2").first).to_be_visible()  # of the other step
    assert page.evaluate("document.documentElement.scrollWidth") <= screen[0]
    picture(page, f"open-{screen[0]}")

    page.get_by_role("link", name="1 failed test").click()

    expect(page.locator("#failed-tests").get_by_text("expected 3 items, got 2")).to_be_in_viewport()
    expect(page.get_by_text("Traceback: line 7")).to_be_visible()
    picture(page, f"case-{screen[0]}")


@pytest.mark.parametrize("screen", DESK_AND_PHONE)
def test_what_a_link_names_is_scrolled_to(
    ada: Reader, page: Page, run: Run, screen: tuple[int, int]
):
    page.set_viewport_size({"width": screen[0], "height": screen[1]})
    ada.open(f"/executions/{run.id}")
    link = page.locator("[data-failure=s23] .last-words a")
    expect(link).to_have_count(1)
    href = link.get_attribute("href")
    assert href
    line = page.locator(f".log-row .log-no[data-line='{href.removeprefix('#L')}']")

    link.click()
    expect(line).to_be_in_viewport()

    page.goto("about:blank")
    ada.open(f"/executions/{run.id}{href}")
    expect(line).to_be_in_viewport()
    if screen[0] < 900:
        page.get_by_role("tab", name="Why").click()
    page.locator(".verdict").get_by_role("button", name="s31").click()
    expect(page.locator(".step[data-step=s31]")).to_have_class("step is-selected")
    expect(page.locator("#log")).to_be_in_viewport(ratio=0.99)


def test_what_a_reader_opened_stays_open_when_it_is_fetched_again(ada: Reader, run: Run):
    page = ada.page
    ada.open(f"/executions/{run.id}")
    first_case = page.locator(".failed-case").first
    page.get_by_text("Last lines").click()
    page.get_by_role("tab", name="Tests").click()
    first_case.locator("summary").click()

    for _ in range(2):
        with page.expect_response("**/panels"):
            page.evaluate("""htmx.ajax("GET", `${location.pathname}/panels`, { swap: "none" })""")
        expect(page.locator(".htmx-request, .htmx-swapping")).to_have_count(0)

        expect(page.locator(".failure details")).to_have_attribute("open", "")
        expect(first_case).not_to_have_attribute("open", "")


def test_failed_steps_stand_first_and_can_be_shown_alone(ada: Reader, run: Run):
    page = ada.page
    ada.open(f"/executions/{run.id}")

    names = page.locator(".step .step-name").all_inner_texts()
    assert names[:2] == ["s23", "s31"]
    assert len(names) == 40
    expect(page.locator(".step[data-step=s31]")).to_contain_text("1 of 12 tests failed")
    page.get_by_role("button", name="Only failed").click()
    expect(page.locator(".step:visible")).to_have_count(2)
