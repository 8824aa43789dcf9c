"""The sign-in of a program by a code in Chromium: from the link that it shows to its token."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from playwright.sync_api import Browser, expect

from tests.integration.pages import findings_everywhere
from tests.support.browser import PASSWORD, Reader, Server, fill_sign_in, reader

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

LONG = "partita 1.2 on a-laptop-with-a-very-long-name.engineering.corporation.example"


def begun(url: str, client: str = "partita 1.2 on ann-laptop") -> Any:
    answer = httpx.post(f"{url}/api/v1/auth/device", json={"client": client})
    assert answer.status_code == 200, answer.text
    return answer.json()


def fetch(url: str, codes: Any) -> httpx.Response:
    body = {"deviceCode": codes["deviceCode"]}
    return httpx.post(f"{url}/api/v1/auth/device/token", json=body)


def test_from_the_link_by_the_sign_in_to_a_token(browser: Browser, server: Server, ada: Reader):
    codes = begun(server.url)
    assert codes["verificationUriComplete"].startswith(server.url)
    assert fetch(server.url, codes).json()["code"] == "authorization_pending"

    with reader(browser, server) as anywhere:
        page = anywhere.page
        page.goto(codes["verificationUriComplete"])
        fill_sign_in(page, {"email": "ada@example.org", "password": PASSWORD})
        expect(page.get_by_role("heading", name="Sign in to the command line?")).to_be_visible()
        expect(page.locator("[data-user-code]")).to_have_text(codes["userCode"])
        page.get_by_label("Permissions").select_option(label="Read runs")
        page.get_by_role("button", name="Approve").click()
        expect(page.get_by_role("status")).to_contain_text("will be signed in as Ada Lovelace")
        assert anywhere.complaints == []

    fetched = fetch(server.url, codes).json()
    bearer = {"Authorization": f"Bearer {fetched['token']}"}
    me = httpx.get(f"{server.url}/api/v1/auth/me", headers=bearer).json()
    assert (me["role"], me["token"]["name"]) == ("viewer", "partita 1.2 on ann-laptop")
    ada.open("/account")
    expect(ada.page.get_by_text("partita 1.2 on ann-laptop", exact=True)).to_be_visible()
    ada.page.get_by_role("button", name="Revoke partita 1.2 on ann-laptop").click()
    expect(ada.page.get_by_text("partita 1.2 on ann-laptop", exact=True)).to_be_hidden()
    assert httpx.get(f"{server.url}/api/v1/auth/me", headers=bearer).status_code == 401


def test_a_code_is_typed_and_denied_by_the_keyboard(server: Server, ada: Reader):
    codes = begun(server.url)
    page = ada.page

    ada.open("/device")
    page.keyboard.type(codes["userCode"].lower().replace("-", ""))
    page.keyboard.press("Enter")
    expect(page.locator("[data-user-code]")).to_have_text(codes["userCode"])
    page.get_by_role("button", name="Deny").press("Enter")

    expect(page.get_by_role("heading", name="Denied")).to_be_visible()
    assert fetch(server.url, codes).json()["code"] == "access_denied"


def test_the_page_is_accessible_and_fits_a_phone(server: Server, ada: Reader, axe: str):
    codes = begun(server.url, LONG)
    link = urlsplit(codes["verificationUriComplete"])

    found = findings_everywhere(ada.page, axe, ada.url, ["/device", f"{link.path}?{link.query}"])

    assert found == []
    assert ada.page.viewport_size is not None
    assert ada.page.viewport_size["width"] == 390
    assert ada.page.evaluate("document.documentElement.scrollWidth") <= 390
    expect(ada.page.get_by_text(LONG)).to_be_visible()
