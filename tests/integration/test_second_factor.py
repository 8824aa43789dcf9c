"""A second factor in Chromium: set up with an app, asked for at the sign-in."""

from __future__ import annotations

from datetime import timedelta

import pyotp
import pytest
from playwright.sync_api import expect

from kernel.clock import now
from tests.support.browser import PASSWORD, Reader, fill_sign_in

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def test_the_app_s_code_is_needed_from_then_on(ada: Reader):
    page = ada.page
    ada.open("/account")
    page.get_by_role("button", name="Set up").click()
    expect(page.locator(".qr-code svg")).to_be_visible()
    app = pyotp.TOTP(page.locator("[data-secret]").inner_text())
    page.get_by_label("Then type the code").fill(app.at(now() - timedelta(seconds=30)))
    page.get_by_role("button", name="Turn on").click()
    codes = page.locator("[data-recovery-codes]").inner_text().split()
    assert len(codes) == 10

    page.locator("details.menu > summary").click()
    page.get_by_role("button", name="Sign out", exact=True).click()
    fill_sign_in(page, {"email": "ada@example.org", "password": PASSWORD})
    expect(page.get_by_role("heading", name="Your code")).to_be_visible()
    page.get_by_label("Code from your app").fill("000000")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_contain_text("The code is wrong")
    page.get_by_label("Code from your app").fill(app.now())
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url(f"{ada.url}/")

    ada.open("/account")
    page.get_by_label("Code", exact=True).fill(codes[3])
    page.get_by_role("button", name="Turn off").click()
    expect(page.get_by_role("button", name="Set up")).to_be_visible()
    ada.complaints[:] = [said for said in ada.complaints if "401" not in said]
