"""Pages in Chromium as a whole: one width, tabs of a suite, an account, tables of a phone."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.support.browser import Reader

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
PAGES = [
    *("/", "/suites", "/suites/hello", "/catalog", "/profiles", "/profiles/hello"),
    *("/profiles/hello/-/new", "/settings/general", "/settings/backends", "/team", "/account"),
    "/environments",
    "/executions/run-0123456789ab",
]


def left_edge(page: Page) -> float:
    found: float = page.evaluate("document.querySelector('main h1').getBoundingClientRect().left")
    return found


def test_no_page_moves_sideways(ada: Reader):
    ada.page.set_viewport_size({"width": 1800, "height": 900})
    edges = {}
    for path in PAGES:
        ada.page.goto(ada.url + path)
        edges[path] = left_edge(ada.page)
    brand = ada.page.evaluate("document.querySelector('.brand').getBoundingClientRect().left")

    assert set(edges.values()) == {brand}, edges
    ada.complaints[:] = [said for said in ada.complaints if "404" not in said]


def test_the_tabs_of_a_suite_work_by_keyboard_and_stay_in_the_address(ada: Reader):
    page = ada.page
    ada.open("/suites/shop")
    expect(page.get_by_role("heading", name="Recent runs")).to_be_in_viewport()
    page.get_by_role("tab", name="Runs and profiles").press("ArrowRight")
    expect(page.get_by_role("tab", name="README")).to_be_focused()
    expect(page.get_by_role("tabpanel", name="README")).to_be_visible()
    expect(page.get_by_role("heading", name="Recent runs")).to_be_hidden()
    expect(page).to_have_url(re.compile(r"\?tab=readme$"))
    page.reload()
    expect(page.get_by_role("tabpanel", name="README")).to_be_visible()

    page.get_by_role("tab", name="Source").click()
    page.get_by_role("link", name="README.md", exact=True).first.click()
    expect(page.get_by_role("region", name="Text of README.md")).to_be_visible()


def test_the_cards_of_an_account_are_in_two_columns_where_there_is_room(ada: Reader):
    columns = (
        "new Set([...document.querySelectorAll('.card-columns > .panel')]"
        ".map(card => Math.round(card.getBoundingClientRect().left))).size"
    )
    for width, count in ((1440, 2), (390, 1)):
        ada.page.set_viewport_size({"width": width, "height": 900})
        ada.open("/account")
        assert ada.page.evaluate(columns) == count


@pytest.mark.parametrize("path", ["/profiles", "/profiles/hello", "/team"])
def test_a_table_of_a_phone_shows_all_its_columns(ada: Reader, path: str):
    ada.page.set_viewport_size({"width": 390, "height": 844})
    ada.open(path)

    cut = ada.page.evaluate(
        "[...document.querySelectorAll('table.stacked td, table.stacked tbody th')]"
        ".filter(cell => cell.getBoundingClientRect().right > innerWidth).length"
    )
    assert cut == 0
    assert ada.page.locator("table.stacked td").first.is_visible()


@pytest.mark.parametrize("path", ["/suites", "/suites/shop", "/settings/general"])
def test_with_forced_colors_only_what_is_chosen_is_underlined(ada: Reader, path: str):
    ada.page.emulate_media(forced_colors="active")
    ada.open(path)

    underlined = ada.page.evaluate(
        """() => {
          const canvas = getComputedStyle(document.documentElement).backgroundColor;
          const links = [...document.querySelectorAll(".bar nav a, .settings-nav a, [role=tab]")];
          const isUnderlined = ({ borderBottomColor: color, borderBottomWidth: width }) =>
            width !== "0px" && color !== canvas;
          return links.filter((link) => isUnderlined(getComputedStyle(link)))
            .every((link) => link.matches("[aria-current], [aria-selected=true]"))
            && links.some((link) => isUnderlined(getComputedStyle(link)));
        }"""
    )
    assert underlined
