"""The page of a failed run of forty steps tells why, at the first look."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from apps.executions import api as executions
from kernel import clock
from kernel.agent_protocol import ArtifactUpload, LogChunk, LogLine, job_of
from tests.apps.executions.runs import Run, Worker, booted_run, node
from tests.integration.test_pages import (
    ada,  # noqa: F401 - fixtures
    browser,  # noqa: F401
    principal,
    server,  # noqa: F401
    worker,  # noqa: F401
)
from tests.support.browser import Reader
from tests.support.packages import program

pytestmark = [
    pytest.mark.browser,
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(program("chromium") is None, reason="needs Chromium"),
]
ERROR = "psycopg.OperationalError: connection to server at 10.0.0.7 failed: Connection refused"
SCREENS = [(1440, 900), (390, 844)]
PICTURES = ""  # a folder, to look at them


def report() -> bytes:
    """Twelve tests, of which the fifth fails."""
    cases = "".join(
        f'<testcase name="case {n}" classname="shop">'
        + (
            '<failure message="expected 3 items, got 2">Traceback: line 7\n  assert</failure>'
            if n == 5
            else ""
        )
        + "</testcase>"
        for n in range(1, 13)
    )
    return f"<testsuite>{cases}</testsuite>".encode()


@pytest.fixture
def run(ada: Reader, worker: Worker) -> Run:  # noqa: F811
    """Forty steps beside each other: the 23rd fails, and of the tests of the 31st the 5th."""
    exports = [{"path": "junit.xml", "on": "always", "format": "junit", "required": False}]
    nodes = [node(f"s{n:02}") for n in range(1, 41)]
    nodes[30] |= {"kind": "test", "artifactExports": exports}
    made = booted_run(*nodes, principal=principal(ada))
    while claimed := worker.claim():
        for step in claimed:
            if step == "s31":
                continue
            if step == "s23":
                lines = [LogLine(clock.now(), "info", "output", f"step {n}") for n in range(60)]
                lines.append(LogLine(clock.now(), "warn", "output", f"\x1b[31m{ERROR}\x1b[0m"))
                chunk = LogChunk(
                    job=job_of(worker.jobs[step]), seq=0, position=len(lines), lines=lines
                )
                executions.record_reports(worker.supervisor, chunks=[chunk])
                worker.fail(step)
            else:
                worker.end(step)
    written = LogLine(clock.now(), "info", "output", "1 of 12 is red")
    chunk = LogChunk(job=job_of(worker.jobs["s31"]), seq=0, position=1, lines=[written])
    executions.record_reports(worker.supervisor, chunks=[chunk])
    upload = ArtifactUpload(
        path="junit.xml", name="", format="junit", on="always", media_type="application/xml",
        body=report(),
    )  # fmt: skip
    executions.store_artifact(worker.supervisor, job_of(worker.jobs["s31"]), upload)
    worker.fail("s31")
    return made


@pytest.fixture(params=["light", "dark"])
def page(request: pytest.FixtureRequest, ada: Reader) -> Page:  # noqa: F811
    ada.page.emulate_media(color_scheme=request.param)
    return ada.page


def in_view(page: Page, text: str) -> bool:
    """Whether the first element that shows `text` is wholly within the window."""
    box = page.get_by_text(text).first.bounding_box()
    size = page.viewport_size
    assert box is not None
    assert size is not None
    return box["y"] >= 0 and box["y"] + box["height"] <= size["height"]


def picture(page: Page, name: str) -> None:
    if PICTURES:
        page.screenshot(path=str(Path(PICTURES) / f"{name}.png"))


@pytest.mark.parametrize("screen", SCREENS)
def test_the_programs_own_error_is_in_sight_on_opening(
    ada: Reader,  # noqa: F811
    page: Page,
    run: Run,
    screen: tuple[int, int],
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


@pytest.mark.parametrize("screen", SCREENS)
def test_what_a_link_names_is_scrolled_to(
    ada: Reader,  # noqa: F811
    page: Page,
    run: Run,
    screen: tuple[int, int],
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


def test_what_a_reader_opened_stays_open_when_it_is_fetched_again(
    ada: Reader,  # noqa: F811
    run: Run,
):
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


def test_failed_steps_stand_first_and_can_be_shown_alone(
    ada: Reader,  # noqa: F811
    run: Run,
):
    page = ada.page
    ada.open(f"/executions/{run.id}")

    names = page.locator(".step .step-name").all_inner_texts()
    assert names[:2] == ["s23", "s31"]
    assert len(names) == 40
    expect(page.locator(".step[data-step=s31]")).to_contain_text("1 of 12 tests failed")
    page.get_by_role("button", name="Only failed").click()
    expect(page.locator(".step:visible")).to_have_count(2)
