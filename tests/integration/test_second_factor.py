"""A second factor in Chromium: set up with an app, asked for at the sign-in."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pyotp
import pytest
from playwright.sync_api import Browser, expect

from kernel.clock import now
from tests.integration.test_pages import browser  # noqa: F401 - fixture
from tests.support.browser import PASSWORD, Reader, Server, reader
from tests.support.packages import program

pytestmark = [
    pytest.mark.browser,
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(program("chromium") is None, reason="needs Chromium"),
]


@pytest.fixture(scope="module")
def server(django_db_setup: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    running = Server(tmp_path_factory.mktemp("second-factor"))
    running.start()
    yield running
    running.kill()


@pytest.fixture
def ada(browser: Browser, server: Server) -> Iterator[Reader]:  # noqa: F811
    with reader(browser, server) as who:
        who.sign_in()
        yield who
        assert [said for said in who.complaints if "401" not in said] == []


def test_the_app_s_code_is_needed_from_then_on(ada: Reader):
    page = ada.page
    ada.open("/account")
    page.get_by_role("button", name="Set it up").click()
    expect(page.locator(".qr-code svg")).to_be_visible()
    app = pyotp.TOTP(page.locator("[data-secret]").inner_text())
    page.get_by_label("Then type the code").fill(app.at(now() - timedelta(seconds=30)))
    page.get_by_role("button", name="Turn it on").click()
    codes = page.locator("[data-recovery-codes]").inner_text().split()
    assert len(codes) == 10

    page.locator("details.menu > summary").click()
    page.get_by_role("button", name="Sign out", exact=True).click()
    page.get_by_label("Email").fill("ada@example.org")
    page.get_by_label("Password", exact=True).fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", name="Your code")).to_be_visible()
    page.get_by_label("Code of your app").fill("000000")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_contain_text("The code is wrong")
    page.get_by_label("Code of your app").fill(app.now())
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url(f"{ada.url}/")

    ada.open("/account")
    page.get_by_label("Code", exact=True).fill(codes[3])
    page.get_by_role("button", name="Turn it off").click()
    expect(page.get_by_role("button", name="Set it up")).to_be_visible()
