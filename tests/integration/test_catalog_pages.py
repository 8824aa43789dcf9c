"""The catalog in a browser: search and filters without a reload, stars, commands, a launch."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.support.browser import Reader

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def titles(page: Page) -> list[str]:
    return page.locator("#packages h2").all_inner_texts()


def test_a_search_and_a_filter_change_the_list_and_the_address(ada: Reader):
    page = ada.page
    ada.open("/catalog")
    page.evaluate("window.isTheSamePage = true")
    expect(page.locator("[data-package=workspace-hello]")).to_be_visible()

    page.keyboard.press("/")
    page.keyboard.type("three letters")
    expect(page.locator("#packages > li")).to_have_count(1)
    expect(page).to_have_url(re.compile(r"/catalog\?q=three(\+|%20)letters(&sort=)?$"))
    expect(page.locator("#catalog-q")).to_be_focused()
    page.get_by_role("link", name=re.compile("^runnable")).click()
    expect(page).to_have_url(re.compile("q=three.*letters&runnable=true"))
    expect(page.get_by_role("link", name=re.compile("^runnable"))).to_be_focused()
    page.locator("#catalog-q").fill("nothing")
    expect(page.get_by_role("heading", name="No package matches")).to_be_visible()
    assert "runnable=true" in page.url
    assert page.evaluate("window.isTheSamePage")
    page.go_back()

    expect(page.locator("#packages > li")).to_have_count(1)
    assert titles(page) == ["Hello"]


def test_a_star_is_set_in_place_and_found_again(ada: Reader):
    page = ada.page
    ada.open("/catalog?q=redis&kind=stdlib")
    star = page.get_by_role("button", name="Favorite: @partita/redis")
    expect(star).to_have_attribute("aria-pressed", "false")
    page.evaluate("window.isTheSamePage = true")

    star.focus()
    page.keyboard.press("Enter")

    expect(star).to_have_attribute("aria-pressed", "true")
    expect(star).to_be_focused()
    assert page.evaluate("window.isTheSamePage")
    ada.open("/catalog?starred=true")
    assert titles(page) == ["@partita/redis"]


def test_commands_are_copied_and_the_score_is_explained(ada: Reader):
    page = ada.page
    ada.context.grant_permissions(["clipboard-read", "clipboard-write"])
    ada.open("/catalog")
    card = page.locator("[data-package=workspace-hello]")

    card.get_by_text("Score", exact=False).first.click()
    expect(card.locator(".merits")).to_contain_text("wants a contract file in api/")
    card.get_by_text("Commands").click()
    card.get_by_role("button", name="Copy the pull command").click()

    expect(card.get_by_text("Copied")).to_be_visible()
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied == "partita suite pull workspace/hello:workspace"


@pytest.mark.usefixtures("worker")
def test_a_suite_is_launched_with_a_profile_in_two_clicks(ada: Reader):
    page = ada.page
    ada.open("/catalog/workspace-hello")
    expect(page.locator(".graph .node").first).to_be_visible()

    page.get_by_text("Launch", exact=True).click()
    page.get_by_role("button", name=re.compile("^Verbose")).click()

    page.wait_for_url("**/executions/run-*")
    expect(page.locator(".run-title")).to_be_visible()
    expect(page.get_by_text("verbose.yaml").first).to_be_visible()


def test_a_launch_that_is_refused_says_why(ada: Reader):
    page = ada.page
    ada.open("/catalog/workspace-hello")
    refusal = {"code": "queue_full", "detail": "the queue is full", "errors": []}
    page.route("**/api/v1/executions", lambda route: route.fulfill(
        status=503, json=refusal, content_type="application/problem+json"))  # fmt: skip

    page.get_by_text("Launch", exact=True).click()
    page.get_by_role("button", name=re.compile("^Verbose")).click()

    expect(page.get_by_role("alert")).to_have_text("the queue is full")
    page.keyboard.press("Escape")
    expect(page.get_by_role("button", name=re.compile("^Verbose"))).to_be_hidden()
    ada.complaints.clear()  # the browser's own words about 503


@pytest.mark.parametrize(("width", "height"), [(1440, 900), (390, 844)])
def test_nothing_is_cut_off(ada: Reader, width: int, height: int):
    page = ada.page
    page.set_viewport_size({"width": width, "height": height})
    for path in ("/catalog", "/catalog?q=hello&kind=suite", "/catalog/workspace-hello"):
        ada.open(path)
        assert not page.evaluate("document.documentElement.scrollWidth > innerWidth"), path


def test_the_catalog_works_without_scripts(ada: Reader):
    state = ada.context.storage_state()
    context = ada.context.browser.new_context(java_script_enabled=False, storage_state=state)  # type: ignore[union-attr]
    page = context.new_page()
    page.goto(f"{ada.url}/catalog")
    page.get_by_label("Search the catalog").fill("redis")
    page.get_by_role("button", name="Search").click()
    page.get_by_role("link", name=re.compile("^modules")).click()
    page.get_by_role("button", name="Favorite: @partita/redis").click()

    assert "q=redis" in page.url
    star = page.get_by_role("button", name="Favorite: @partita/redis")
    expect(star).to_have_attribute("aria-pressed", "true")
    context.close()
