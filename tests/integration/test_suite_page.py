"""The page of a suite in a browser: surfaces that unfold, commands to copy, launch by profile."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.support.browser import Reader, Server, reader

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def test_operations_unfold_with_the_keyboard_and_their_command_is_copied(
    browser: Browser, server: Server
):
    with reader(browser, server, permissions=["clipboard-read", "clipboard-write"]) as who:
        who.sign_in()
        who.open("/suites/shop?tab=api")
        page = who.page
        page.locator("[data-surface=shop] > summary").press("Enter")
        operation = page.locator("[data-operation=createOrder]")
        operation.locator("summary").press("Enter")
        expect(operation.get_by_role("region", name="Example accepted")).to_contain_text("201")

        operation.get_by_role("button", name="Copy the command that calls createOrder").click()
        expect(operation.locator("[data-copy]").first).to_contain_text("Copied")
        words = shlex.split(page.evaluate("navigator.clipboard.readText()"))
        assert words[:4] == ["curl", "-i", "-X", "POST"]
        assert words[4].endswith("/mocks/rest/shop/shop/orders")
        assert who.complaints == []


def test_a_profile_is_launched_from_its_row(ada: Reader):
    ada.open("/suites/shop")
    ada.page.get_by_role("button", name="Launch with Slow").click()
    dialog = ada.page.get_by_role("dialog", name="Launch a suite")

    expect(dialog.get_by_role("combobox", name="Suite")).to_have_value("shop")
    expect(dialog.get_by_role("combobox", name="Profile")).to_have_value("slow.yaml")


def test_the_imports_of_a_suite_are_a_tree_with_digests(ada: Reader):
    ada.open("/suites/composite?tab=imports")
    tree = ada.page.get_by_role("region", name="Imported suites")

    expect(tree.get_by_role("listitem")).to_have_count(2)
    expect(tree.get_by_role("link", name="Shop")).to_have_attribute("href", "/suites/shop")
    expect(tree).to_contain_text(re.compile("sha256:[0-9a-f]{64}"))


@pytest.mark.parametrize("width", [1440, 390])
def test_nothing_is_wider_than_the_screen(ada: Reader, width: int, tmp_path: Path):
    page = ada.page
    page.set_viewport_size({"width": width, "height": 900})
    ada.open("/suites/shop?tab=api")
    page.locator("[data-surface=payments] > summary").click()
    page.locator("[data-operation=Capture] > summary").click()
    page.get_by_role("region", name="Example settled").wait_for()

    assert page.evaluate("document.documentElement.scrollWidth") <= width
