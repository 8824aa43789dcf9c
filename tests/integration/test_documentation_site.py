"""The documentation site in a browser: axe, the search box, and the policy of the server."""

from __future__ import annotations

import re
import threading
import tomllib
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from apps.http.middleware.headers import CONTENT_SECURITY_POLICY
from documentation.pages import nav_pages
from documentation.site import CONFIGURATION, build
from tests.integration.pages import findings_everywhere

pytestmark = pytest.mark.browser
PAGES = [  # one of each kind
    "/",
    "/guides/first-suite.html",
    "/guides/troubleshoot.html",
    "/guides/adding-a-sink.html",
    "/suites.html",
    "/tables/commands.html",
    "/tables/reasons.html",
    "/tables/rest.html",
    "/tables/environment.html",
    "/reference/control-plane.html",
    "/decisions/index.html",
    "/project/overview.html",
]
WIDEST_LINE = 90  # characters of a paragraph on a desktop


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


def test_llms_txt_lists_each_page_of_the_navigation_with_its_markdown(page: Page, site: str):
    text = page.request.get(f"{site}/llms.txt").text()
    listed = re.findall(r"^- \[[^\]]+\]\((\S+\.md)\)", text, re.M)
    project = tomllib.loads(CONFIGURATION.read_text())["project"]

    assert listed == [name for _part, name in nav_pages(project["nav"])]
    assert [name for name in listed if not page.request.get(f"{site}/{name}").ok] == []


def test_a_code_block_has_a_button_that_copies_it(page: Page, site: str) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.goto(f"{site}/guides/first-suite.html")

    page.get_by_role("button", name="Copy to clipboard").first.click()

    expect(page.get_by_text("Copied to clipboard")).to_be_visible()
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied.strip() == "./partita suite new examples/oci-suites/jobs --template worker"


def test_a_phone_scrolls_a_page_only_down(page: Page, site: str) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    wide = []
    for path in PAGES:
        page.goto(site + path)
        if page.evaluate("document.documentElement.scrollWidth > innerWidth"):
            wide.append(path)

    assert wide == []


def test_lines_are_not_too_long_to_read_and_codes_in_tables_stay_whole(page: Page, site: str):
    page.goto(f"{site}/guides/troubleshoot.html")
    characters = page.evaluate(
        """() => {
          const text = document.querySelector(".md-content p");
          const probe = document.createElement("span");
          probe.textContent = "0".repeat(100);
          probe.style.whiteSpace = "nowrap";
          text.append(probe);
          const width = probe.getBoundingClientRect().width / 100;
          probe.remove();
          return text.clientWidth / width;
        }"""
    )
    assert characters <= WIDEST_LINE
    lines = page.evaluate(
        """() => [...document.querySelectorAll(".md-content td code")]
          .filter((code) => /^\\w+$/.test(code.textContent) && code.getClientRects().length > 1)
          .map((code) => code.textContent)"""
    )
    assert lines == []
