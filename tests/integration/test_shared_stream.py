"""The tabs of a browser share one connection: Chromium over HTTP/1.1 on a real server."""

from __future__ import annotations

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.apps.executions.runs import Run, Worker, booted_run, node
from tests.integration.pages import principal
from tests.support.browser import PATIENCE_MS, Reader

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
TABS = 10
NO_SHARED_WORKER = "delete window.SharedWorker"


def live_runs(who: Reader, worker: Worker, count: int) -> list[Run]:
    runs = [booted_run(node(f"step-{n}"), principal=principal(who)) for n in range(count)]
    worker.claim()
    return runs


def opened(context: BrowserContext, url: str, run: Run) -> Page:
    page = context.new_page()
    page.goto(f"{url}/executions/{run.id}", timeout=PATIENCE_MS)
    expect(page.locator("#log-link")).to_have_attribute("data-link", "live", timeout=30_000)
    return page


def texts(page: Page) -> list[str]:
    return page.locator(".log-row[data-kind=output] .log-text").all_text_contents()


def test_ten_open_live_runs_leave_connections_for_the_eleventh_page(ada: Reader):
    """With two streams a tab, the fourth page would wait for a connection until `opened` gives up.

    How long it takes is measured by `python -m bench tabs`.
    """
    worker = Worker()
    runs = live_runs(ada, worker, TABS)

    pages = [opened(ada.context, ada.url, run) for run in runs]
    opened(ada.context, ada.url, runs[0]).close()

    for n in range(TABS):
        worker.log(f"step-{n}", f"for tab {n}")
    for n, page in enumerate(pages):
        expect(page.locator(".log-text", has_text=f"for tab {n}")).to_have_count(1)
        assert texts(page) == [f"for tab {n}"]


@pytest.mark.parametrize("script", ["", NO_SHARED_WORKER], ids=["worker", "elected tab"])
def test_the_tab_that_holds_the_connection_closes_and_nothing_is_lost(ada: Reader, script: str):
    if script:
        ada.context.add_init_script(script)
    worker = Worker()
    runs = live_runs(ada, worker, 2)
    holder, *others = [opened(ada.context, ada.url, run) for run in (runs[0], *runs)]
    worker.log("step-0", "before")
    worker.log("step-1", "before")
    for page in others:
        expect(page.locator(".log-text", has_text="before")).to_be_visible()

    holder.close()
    for n in range(1, 30):
        worker.log("step-0", f"line {n}", seq=n)
        worker.log("step-1", f"line {n}", seq=n)

    wanted = ["before", *(f"line {n}" for n in range(1, 30))]
    for page in others:
        expect(page.locator(".log-text", has_text="line 29")).to_be_visible()
        assert texts(page) == wanted
