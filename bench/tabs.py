"""`python -m bench tabs [--quick]`: does the page of a live run open as fast beside ten others?"""

from __future__ import annotations

import re
import statistics
import tempfile
import time
from pathlib import Path
from typing import Final

import httpx
from playwright.sync_api import BrowserContext, Page, expect

from bench.report import end_in_order, is_quick, publish
from tests.support.browser import chromium
from tests.support.cluster import ADMIN, Cluster

TABS: Final = 10
TURNS: Final = 3 if is_quick() else 15
GOAL: Final = 2.0
SUITE: Final = """\
load("@partita/runtime", "task")

wait = task.run(image = "busybox:1.36", command = ["sleep", "900"], timeout = "900s")
"""


def waiting_suite(folder: Path) -> Path:
    """Whose runs stay live."""
    folder.mkdir()
    (folder / "suite.star").write_text(SUITE)
    (folder / "metadata.yaml").write_text("title: Waiting\n")
    return folder


def sign_in(cluster: Cluster, context: BrowserContext) -> None:
    with httpx.Client(base_url=cluster.url) as client:
        page = client.get("/sign-in").text
        token = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', page)
        assert token, page
        form = {**ADMIN, "csrfmiddlewaretoken": token[1]}
        answer = client.post("/sign-in", data=form, headers={"Referer": f"{cluster.url}/sign-in"})
        assert answer.status_code == httpx.codes.FOUND, answer.text
        cookies = [
            {"name": name, "value": value, "url": cluster.url}
            for name, value in client.cookies.items()
        ]
    context.add_cookies(cookies)  # type: ignore[arg-type]


def opened(context: BrowserContext, url: str, run_id: str) -> Page:
    page = context.new_page()
    page.goto(f"{url}/executions/{run_id}")
    expect(page.locator("#log-link")).to_have_attribute("data-link", "live", timeout=30_000)
    return page


def seconds_to_open(context: BrowserContext, url: str, run_id: str) -> list[float]:
    """Until both streams are live, in a tab that is closed again."""
    taken = []
    for _ in range(TURNS):
        started = time.perf_counter()
        page = opened(context, url, run_id)
        taken.append(time.perf_counter() - started)
        page.close()
    return taken


def main() -> None:
    end_in_order()
    with (
        tempfile.TemporaryDirectory(prefix="partita-bench-") as folder,
        Cluster(
            Path(folder) / "cluster", suites=[waiting_suite(Path(folder) / "waiting")]
        ) as cluster,
        chromium() as browser,
    ):
        runs = [cluster.launch("waiting") for _ in range(TABS)]
        context = browser.new_context()
        sign_in(cluster, context)
        alone = seconds_to_open(context, cluster.url, runs[0])
        for run_id in runs:
            opened(context, cluster.url, run_id)
        beside = seconds_to_open(context, cluster.url, runs[0])
    medians = [statistics.median(each) for each in (alone, beside)]
    ratio = medians[1] / medians[0]
    publish(
        "tabs",
        f"Opening the page of a live run in Chromium over HTTP/1.1, until its streams are live; "
        f"{TURNS} turns.",
        ("open beside it", "median ms", "best ms"),
        [
            (count, round(median * 1000), round(min(taken) * 1000))
            for count, median, taken in zip((0, TABS), medians, (alone, beside), strict=True)
        ],
        f"{ratio:.2f} times as long beside {TABS} live runs "
        f"(goal {GOAL:g}: {'met' if ratio <= GOAL else 'MISSED'}).",
    )


if __name__ == "__main__":
    main()
