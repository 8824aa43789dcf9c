"""The page of a run of forty steps at every width: a chosen step, its log and its cause in view."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from apps.executions import api as executions
from tests.apps.executions.runs import Run, Worker, booted_run, node
from tests.integration.pages import principal
from tests.support.browser import Reader

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
SCREENS = [(1440, 900), (1024, 768), (900, 900), (390, 844)]
NARROW = 900  # pixels; below it the parts of the page are tabs
CAUSE = "Because migrate"
LINES = [f"line {n} of 60" for n in range(1, 61)]
MORE = {"build-7": [f"needle 391 of build-7 {'x' * 1500} its end"]}
FAILURE = {"reason": "exit_nonzero", "exit_code": 3, "error": "exit code 3, expected 0"}
# loaded, one after the other, none on another, and the window is full of them
ROWS_ARE_WHOLE = """
() => {
  const log = document.getElementById("log").getBoundingClientRect();
  const rows = [...document.querySelectorAll(".log-row")];
  const boxes = rows.map((row) => row.getBoundingClientRect());
  const numbers = rows.map((row) => Number(row.querySelector(".log-no").dataset.line));
  return rows.every((row) => row.dataset.kind !== "loading")
    && numbers.every((number, at) => number === numbers[0] + at)
    && boxes.every((box, at) => !at || Math.abs(box.top - boxes[at - 1].bottom) < 1)
    && boxes[0].top <= log.top + 1 && boxes.at(-1).bottom >= log.bottom - 1;
}
"""
PICTURES = os.environ.get("PAGE_PICTURES", "")  # a folder, to look at them
expect.set_options(timeout=30_000)


@pytest.fixture
def run(ada: Reader, worker: Worker) -> Run:
    """Forty steps: the 23rd, `migrate`, fails; the 35th of the list, `report`, needs it."""
    loads = [f"load-data-{n}" for n in range(1, 9)]
    builds = [f"build-{n}" for n in range(1, 14)]
    tests = [f"test-{n}" for n in range(1, 11)]
    made = booted_run(
        node("db"),
        *(node(name, after=["db"]) for name in loads),
        *(node(name, after=loads) for name in builds),
        node("migrate", after=loads),
        *(node(name, after=builds, kind="test") for name in tests),
        node("cleanup", on_failure=["migrate"]),
        node("report", after=[*tests, "migrate"]),
        node("publish", after=["report"]),
        *(node(f"deploy-{n}", after=["publish"]) for n in range(1, 5)),
        principal=principal(ada),
    )
    while claimed := worker.claim():
        chunks = [worker.chunk(step, *LINES, *MORE.get(step, ())) for step in claimed]
        ended = [
            worker.completion(step, "failed", **FAILURE)
            if step == "migrate"
            else worker.completion(step)
            for step in claimed
        ]
        executions.record_reports(worker.supervisor, chunks=chunks, completions=ended)
    return made


@pytest.fixture(params=SCREENS, ids=lambda screen: str(screen[0]))
def page(request: pytest.FixtureRequest, ada: Reader) -> Page:
    ada.page.set_viewport_size({"width": request.param[0], "height": request.param[1]})
    return ada.page


def open_run(page: Page, ada: Reader, run: Run, more: str = "") -> None:
    ada.open(f"/executions/{run.id}{more}")
    expect(page.locator("#log-link")).to_have_attribute("data-link", "ended")


def is_narrow(page: Page) -> bool:
    size = page.viewport_size
    assert size is not None
    return size["width"] < NARROW


def assert_whole_in_window(page: Page, part: Locator) -> None:
    """Wait until the part is wholly in the window, which it does not have to scroll to."""
    expect(part).to_be_in_viewport(ratio=0.99)


def assert_chosen(page: Page, step: str) -> None:
    """The step's log and its cause are in view, and the log is large enough to read."""
    expect(page.locator("#log-filter")).to_have_value(step)
    bar = page.locator("#log-step")
    expect(bar).to_contain_text(step)
    expect(bar).to_contain_text(CAUSE)
    assert_whole_in_window(page, bar)
    assert_whole_in_window(page, page.locator("#log"))
    if not is_narrow(page):
        assert_whole_in_window(page, page.locator(".step.is-selected .step-head"))
    box = page.locator("#log").bounding_box()
    assert box is not None
    assert box["height"] >= 180
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def pictures(page: Page, name: str) -> None:
    if not PICTURES:
        return
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        page.wait_for_timeout(200)
        width = page.viewport_size and page.viewport_size["width"]
        page.screenshot(path=str(Path(PICTURES) / f"{name}-{width}-{scheme}.png"))


def test_the_35th_of_40_steps_shows_its_log_and_its_cause(ada: Reader, page: Page, run: Run):
    """By mouse and by keyboard; the log stays in view however far the page is scrolled."""
    open_run(page, ada, run)
    pictures(page, "open")
    heads = page.locator(".step-head")
    expect(heads).to_have_count(40)

    if is_narrow(page):
        page.get_by_role("tab", name="Steps").click()
        pictures(page, "steps")
    heads.nth(34).click()
    assert_chosen(page, "report")
    pictures(page, "chosen")
    page.mouse.move(5, 300)
    page.mouse.wheel(0, 5000)
    assert_chosen(page, "report")

    open_run(page, ada, run)
    for key in [*"j" * 35, "k", "Enter"]:  # from the failed step, the chosen and the first one
        page.keyboard.press(key)
    assert_chosen(page, "report")


def test_a_text_in_another_step_is_found(ada: Reader, page: Page, run: Run):
    open_run(page, ada, run)
    expect(page.locator("#log-filter")).to_have_value("migrate")

    page.keyboard.press("/")
    page.keyboard.type(r"needle \d+ of")
    page.get_by_role("button", name="Regular expression").click()

    expect(page.locator("#log-hits")).to_have_text("1 of 1")
    expect(page.locator("#log-found")).to_contain_text("none in migrate; 1 in other steps")
    expect(page.locator("#log-filter")).to_have_value("build-7")
    expect(page.locator(".log-row.is-marked .log-text")).to_be_in_viewport()
    page.wait_for_function("() => CSS.highlights.has('log-hit')")
    hit = "[...CSS.highlights.get('log-hit')].map(range => range.toString())"
    assert page.evaluate(hit) == ["needle 391 of"]
    pictures(page, "found")


def test_a_tab_that_the_address_names_is_in_sight(ada: Reader, page: Page, run: Run):
    for tab in ("tests", "graph", "events"):
        open_run(page, ada, run, f"?tab={tab}")
        expect(page.get_by_role("tab", selected=True)).to_contain_text(tab.capitalize())
        assert_whole_in_window(page, page.locator("#run-tabs"))
        box = page.locator(f"#pane-{tab} .panel:visible").first.bounding_box()
        assert box is not None
        assert box["y"] < 540, "what the tab holds begins in the upper part of the window"
        pictures(page, tab)


def test_hits_are_walked_step_by_step(ada: Reader, run: Run):
    page = ada.page
    open_run(page, ada, run)
    expect(page.locator("#log-filter")).to_have_value("migrate")
    page.keyboard.press("/")
    page.keyboard.type("line 60 of")
    page.keyboard.press("Enter")
    expect(page.locator("#log-hits")).to_have_text("1 of 24")
    expect(page.locator("#log-found")).to_contain_text("1 in migrate; 23 in other steps")
    expect(page.locator("#log-filter")).to_have_value("migrate")
    page.locator("#log").focus()

    page.keyboard.press("n")
    expect(page.locator("#log-hits")).to_have_text("2 of 24")
    expect(page.locator("#log-filter")).to_have_value("db")
    page.keyboard.press("N")
    expect(page.locator("#log-filter")).to_have_value("migrate")
    page.keyboard.press("N")
    expect(page.locator("#log-hits")).to_have_text("24 of 24")
    page.locator("#log-found").get_by_role("button", name="load-data-3 1").click()

    expect(page.locator("#log-filter")).to_have_value("load-data-3")
    expect(page.locator(".log-row.is-marked .log-text")).to_have_text("line 60 of 60")


def test_a_pattern_that_is_not_understood_is_named(ada: Reader, run: Run):
    page = ada.page
    open_run(page, ada, run)
    page.get_by_role("button", name="Regular expression").click()

    page.get_by_role("searchbox").fill("(")
    page.get_by_role("searchbox").press("Enter")

    expect(page.locator("#log-hits")).to_contain_text("not a valid RE2 pattern: missing )")
    ada.complaints.clear()  # the refused request


def test_the_log_is_few_tab_stops_away(ada: Reader, run: Run):
    page = ada.page
    open_run(page, ada, run)
    stops = 0
    while not page.evaluate("document.activeElement?.id === 'log'"):
        page.keyboard.press("Tab")
        stops += 1
        assert stops < 45

    page.reload()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")  # to the content
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")  # to the log

    expect(page.locator("#log")).to_be_focused()


def test_a_finished_run_offers_only_what_it_can_do(ada: Reader, run: Run):
    page = ada.page
    open_run(page, ada, run)
    expect(page.get_by_role("button", name="Follow")).to_have_count(0)
    size = "parseFloat(getComputedStyle(document.querySelector('%s')).fontSize)"
    assert page.evaluate(size % "[data-duration]") < page.evaluate(size % "h1")
    expect(page.locator(".facts time").first).to_have_text(re.compile(r", \d\d:\d\d:\d\d$"))

    page.keyboard.press("?")

    keys = page.get_by_role("dialog", name="Keyboard")
    expect(keys).to_contain_text("next, previous hit of the search")
    assert not re.search("cancel|follow|launch", keys.inner_text())


def test_siblings_are_one_node_that_opens(ada: Reader, run: Run):
    page = ada.page
    open_run(page, ada, run, "?tab=graph")
    nodes = page.locator("#graph .node")
    expect(nodes).to_have_count(9)
    around, drawing = page.locator(".graph-scroll"), page.locator(".graph")
    assert_whole_in_window(page, drawing)
    group = page.locator('.node[data-node="load-data-1…8"]')
    expect(group).to_contain_text("8 × task")

    group.click()
    expect(nodes).to_have_count(16)
    page.get_by_role("button", name="Every step").click()
    expect(nodes).to_have_count(40)
    fitted = drawing.bounding_box()
    around.focus()
    page.keyboard.press("+")
    page.keyboard.press("+")
    zoomed = drawing.bounding_box()
    assert fitted
    assert zoomed
    assert zoomed["width"] > 1.4 * fitted["width"]
    page.keyboard.press("ArrowRight")
    page.keyboard.press("0")

    page.wait_for_function(
        "(width) => document.querySelector('.graph').getBoundingClientRect().width === width",
        arg=fitted["width"],
    )


def test_wrapped_lines_stand_below_each_other_to_the_last(ada: Reader, worker: Worker):
    run = booted_run(node("seed"), principal=principal(ada))
    worker.claim()
    worker.log("seed", *(f"line {n} " + "x" * (n % 7) * 120 for n in range(3_000)))
    worker.end("seed")
    page = ada.page
    open_run(page, ada, run)
    expect(page.get_by_text("ended as expected")).to_be_in_viewport()

    page.get_by_role("button", name="Wrap").click()

    expect(page.get_by_text("ended as expected")).to_be_in_viewport()
    log = page.locator("#log")
    assert log.evaluate("log => log.scrollWidth <= log.clientWidth")
    for place in (0.5, 0.1, 0.9, 0.0):
        log.evaluate("(log, place) => { log.scrollTop = place * log.scrollHeight; }", place)
        page.wait_for_function(ROWS_ARE_WHOLE, timeout=30_000)
    expect(page.get_by_text("line 0", exact=True)).to_be_in_viewport()
