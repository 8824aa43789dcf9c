"""The documentation site in a browser: axe, the search box, and the policy of the server."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from apps.http.middleware.headers import CONTENT_SECURITY_POLICY
from documentation.site import build
from tests.integration.pages import findings_everywhere

pytestmark = pytest.mark.browser
PAGES = ["/", "/guides/first-suite.html", "/guides/troubleshoot.html", "/tables/commands.html",
         "/tables/reasons.html", "/reference/control-plane.html"]  # fmt: skip


class PolicyHandler(SimpleHTTPRequestHandler):
    """Serves a folder under the content security policy of the server."""

    def end_headers(self) -> None:
        self.send_header("Content-Security-Policy", CONTENT_SECURITY_POLICY)
        super().end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
        """Say nothing."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return the address of the built site."""
    folder = build(tmp_path_factory.mktemp("site"))
    handler = partial(PolicyHandler, directory=str(folder))
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """Return a page whose console must have said nothing at the end."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page, complaints = context.new_page(), []
    page.on("console", lambda message: complaints.append(message.text)
            if message.type in ("error", "warning") else None)  # fmt: skip
    page.on("pageerror", lambda error: complaints.append(f"uncaught: {error}"))
    yield page
    context.close()
    assert complaints == []


def test_axe_finds_nothing_serious(page: Page, site: str, axe: str) -> None:
    assert findings_everywhere(page, axe, site, PAGES) == []


def test_nothing_of_it_comes_from_elsewhere_or_breaks_the_policy(page: Page, site: str) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))

    for path in PAGES:
        page.goto(site + path)

    assert len(asked) > len(PAGES)
    assert [url for url in asked if not url.startswith((site, "data:"))] == []


def test_the_search_box_finds_a_page(page: Page, site: str) -> None:
    page.goto(site)
    page.get_by_role("button", name="Search").first.click()
    page.get_by_role("combobox", name="Search").fill("oom_killed")

    results = page.get_by_role("listbox", name="Search results")
    expect(results).to_contain_text("Reasons, and what to do")


def test_a_page_leads_to_its_markdown(page: Page, site: str) -> None:
    page.goto(f"{site}/guides/first-suite.html")
    address = page.locator('link[type="text/markdown"]').get_attribute("href")

    text = page.request.get(f"{site}/guides/{address}").text()

    assert text.startswith("# Your first suite")
    assert Path(str(address)).suffix == ".md"
