"""The timeline of a run on its page: bars, the critical path, the cursor and the log beside it."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.apps.executions.runs import Run, Worker, booted_run, node, queued_run
from tests.apps.executions.timepiece import Timepiece, slow_run, timepiece_of_runs
from tests.integration.pages import SCREENS, findings, picture, principal
from tests.support.browser import Reader

pytestmark = [
    pytest.mark.browser,
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("nobody_admits"),
]


@pytest.fixture
def timepiece(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> Timepiece:
    return timepiece_of_runs(monkeypatch)


@pytest.fixture
def run(ada: Reader, worker: Worker, timepiece: Timepiece) -> Run:
    return slow_run(worker, timepiece, principal=principal(ada))


def large_run(who: Reader, worker: Worker, timepiece: Timepiece, count: int) -> Run:
    """A database whose image is pulled, steps of an imported suite behind it, and a report."""
    steps = [node(f"shop/orders/check-{number}", after=["db"]) for number in range(count - 2)]
    last = node("report", after=["shop/orders/check-0"])
    run = booted_run(node("db", kind="service"), *steps, last, principal=principal(who))
    worker.claim()
    worker.report("db", "image-pull")
    timepiece.wait(12_000)
    worker.report("db", "running")
    worker.report("db", "healthy")
    ended = 0
    while claimed := worker.claim():
        for step in claimed:
            worker.report(step, "running")
        for step in claimed:
            timepiece.wait(7 * (ended % 5) + 100)
            worker.end(step)
            ended += 1
    worker.end("db", "canceled")
    assert run.status == "Healthy"
    return run


def open_timeline(who: Reader, run: Run) -> Page:
    who.open(f"/executions/{run.id}?tab=timeline")
    expect(who.page.locator(".timeline-sentence")).to_be_visible()
    return who.page


def row(page: Page, step: str) -> Any:
    return page.locator(f'#timeline-chart tr[data-key="{step}"]')


def test_the_page_says_what_each_step_did_and_marks_the_critical_path(
    ada: Reader, run: Run
) -> None:
    page = open_timeline(ada, run)

    expect(page.locator(".timeline-sentence")).to_have_text(
        "The longest wait was 5 s before attempt 2 of check. check ran for 3 s, 35% of the run."
    )
    expect(row(page, "check")).to_contain_text("on the critical path")
    expect(row(page, "check")).to_contain_text("attempt 1 running 1.0 s from 600 ms; failed")
    expect(row(page, "db")).to_contain_text("pulling the image 400 ms from 100 ms")
    expect(page.locator("#log")).to_be_visible()


def test_the_cursor_moves_by_keys_and_scrolls_the_log_to_its_instant(ada: Reader, run: Run) -> None:
    page = open_timeline(ada, run)
    cursor = page.get_by_label("Instant of the run")

    cursor.fill("1000")

    expect(page.locator("#timeline-instant")).to_have_text("At 00:01.003")
    expect(row(page, "check").locator("[data-now]")).to_have_text("running")
    expect(page.locator("#log .is-marked")).to_contain_text("check 1")
    cursor.press("End")
    expect(page.locator("#timeline-instant")).to_contain_text("At 00:08.6")
    cursor.fill("6500")
    expect(row(page, "check").locator("[data-now]")).to_have_text("queued")
    cursor.press("ArrowRight")
    expect(cursor).to_have_attribute("aria-valuetext", "00:06.511 since the start")
    assert page.evaluate("document.activeElement.id") == "timeline-cursor"


def test_a_step_leads_to_its_log(ada: Reader, run: Run) -> None:
    page = open_timeline(ada, run)

    row(page, "check").get_by_role("button", name="check").click()

    expect(page.get_by_role("tab", name="Log")).to_have_attribute("aria-selected", "true")
    expect(page.locator("#log-filter")).to_have_value("check")


def test_a_run_that_goes_on_is_drawn_again(ada: Reader, worker: Worker) -> None:
    run = booted_run(node("db", kind="service"), principal=principal(ada))
    page = open_timeline(ada, run)
    expect(row(page, "db")).to_contain_text("queued")

    worker.claim()
    worker.report("db", "image-pull")

    expect(row(page, "db")).to_contain_text("pulling the image")
    expect(page.locator(".timeline-sentence")).to_contain_text("so far")


def test_a_queued_run_says_how_long_it_waits(ada: Reader) -> None:
    run = queued_run(node("db", kind="service"), principal=principal(ada))

    page = open_timeline(ada, run)

    expect(page.locator(".timeline-sentence")).to_contain_text("has been in the queue for")
    expect(row(page, "db")).to_contain_text("not queued")


@pytest.mark.parametrize("count", [40, 500])
def test_large_runs_stay_usable(
    ada: Reader, worker: Worker, timepiece: Timepiece, count: int
) -> None:
    run = large_run(ada, worker, timepiece, count)
    page = open_timeline(ada, run)
    page.set_viewport_size({"width": 1440, "height": 900})
    expect(page.locator("#timeline-chart tbody tr")).to_have_count(count)
    picture(page, f"timeline-{count}")

    took_ms = page.evaluate(
        """async () => {
          const cursor = document.getElementById("timeline-cursor");
          const start = performance.now();
          for (let nth = 1; nth <= 10; nth += 1) {
            cursor.value = (cursor.max * nth) / 10;
            cursor.dispatchEvent(new Event("input", { bubbles: true }));
            await new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)));
          }
          return (performance.now() - start) / 10;
        }"""
    )
    assert took_ms < 400  # of two frames, on a machine that does other things as well
    page.get_by_role("button", name="Critical path only").click()
    expect(page.locator("#timeline-chart tbody tr:visible")).to_have_count(
        page.locator("#timeline-chart tr.is-critical").count()
    )
    picture(page, f"timeline-{count}-critical")


@pytest.mark.parametrize("screen", SCREENS)
def test_the_timeline_fits_its_window_and_axe_finds_nothing(
    ada: Reader, axe: str, run: Run, screen: tuple[int, int, Any]
) -> None:
    width, height, scheme = screen
    page = ada.page
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": width, "height": height})
    open_timeline(ada, run)
    page.get_by_label("Instant of the run").fill("700")
    expect(page.locator("#timeline-instant")).to_have_text("At 00:00.697")
    moves = "document.documentElement.scrollWidth > document.documentElement.clientWidth"
    assert not page.evaluate(moves)
    picture(page, f"timeline-page-{width}-{scheme}")
    assert findings(page, axe) == []
