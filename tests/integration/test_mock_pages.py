"""Mocks in a browser: a call from the page of a suite, and the calls of a run as they come."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import httpx
import pytest
from django.contrib.auth import get_user_model
from playwright.sync_api import Browser, Locator, expect

from tests.apps.executions.runs import Run, booted_run, node
from tests.integration.pages import DESK_AND_PHONE, findings, principal
from tests.support.browser import Reader, Server, reader
from tests.support.processes import ROOT

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
SHOP = ROOT / "examples" / "oci-suites" / "shop"
OPEN_AT_ONCE = """
new MutationObserver(() => {
  const watched = "[data-surface=shop], [data-operation=listGoods]";
  for (const each of document.querySelectorAll(watched)) each.open = true;
}).observe(document, { childList: true, subtree: true });
"""
REFUSED = "Failed to load resource: the server responded with a status of 409 (Conflict)"


def opened(who: Reader, surface: str, operation: str) -> Locator:
    who.open("/suites/shop?tab=api")
    who.page.locator(f"[data-surface={surface}] > summary").press("Enter")
    found = who.page.locator(f"[data-operation={operation}]")
    found.locator("> summary").press("Enter")
    expect(found.get_by_role("heading", name="Try it")).to_be_visible()
    return found


def test_a_call_is_answered_and_explained_side_by_side(browser: Browser, server: Server):
    with reader(browser, server, permissions=["clipboard-read", "clipboard-write"]) as who:
        who.sign_in()
        operation = opened(who, "shop", "createOrder")
        operation.locator("[data-sample]").select_option(label="as for accepted")
        body = operation.get_by_role("textbox", name="Body")
        body.fill('{"yacht": 1, "it\'s": "quoted"}')
        operation.get_by_role("button", name="Send to createOrder").press("Enter")

        answer = operation.get_by_role("region", name="Answer of createOrder")
        expect(answer).to_contain_text("409 Conflict")
        expect(answer.locator("[data-answer-body]")).to_contain_text("not for sale: yacht")
        why = operation.get_by_role("region", name="Why createOrder answers so")
        expect(why).to_contain_text("Answered by example refused")
        expect(why).to_contain_text("Only the defaults of the state are seen")
        answer.locator("summary").click()
        expect(answer.locator("[data-answer-headers]")).to_contain_text("x-partita-mock-example")
        answer.get_by_role("button", name="Copy the command that sends the same call").click()
        expect(answer.locator("[data-copy-label]")).to_have_text("Copied")
        words = shlex.split(who.page.evaluate("navigator.clipboard.readText()"))
        assert words[:4] == ["curl", "-i", "-X", "POST"]
        assert words[4] == f"{who.url}/mocks/rest/shop/shop/orders"
        assert words[-1] == '{"yacht": 1, "it\'s": "quoted"}'
        assert set(who.complaints) == {REFUSED}, "a browser says so of every answer above 399"


def test_what_is_opened_before_the_page_is_ready_is_loaded(ada: Reader):
    ada.page.add_init_script(OPEN_AT_ONCE)

    ada.open("/suites/shop?tab=api")

    operation = ada.page.locator("[data-operation=listGoods]")
    expect(operation.get_by_role("heading", name="Try it")).to_be_visible()
    closed = ada.page.locator("[data-operation=createOrder] .operation-body")
    assert closed.text_content() == "Loading…", "what nobody opens is not asked for"


def test_parameters_are_added_and_removed(ada: Reader):
    operation = opened(ada, "shop", "listGoods")
    operation.locator("[data-sample]").select_option(label="as for everything")
    operation.get_by_role("button", name="Add a header").click()
    ada.page.keyboard.type("X-Trace")
    operation.get_by_role("textbox", name="Header: value").last.fill("a b")
    operation.get_by_role("textbox", name="Query parameter q", exact=True).fill("ea")
    operation.get_by_role("button", name="Explain without sending").click()
    why = operation.get_by_role("region", name="Why listGoods answers so")
    expect(why).to_contain_text("Answered by example search")
    expect(operation.locator("[data-answer]")).to_be_hidden()

    operation.get_by_role("button", name="Remove q").click()
    operation.get_by_role("button", name="Send to listGoods").click()

    expect(operation.locator("[data-answer-body]")).to_contain_text('"cheese": 410')
    expect(why).to_contain_text("Answered by example everything")
    expect(operation.locator("[data-sent]")).to_contain_text("-H 'X-Trace: a b'")


def test_administrators_see_the_shared_space_live_and_empty_it(ada: Reader):
    get_user_model().objects.update(is_admin=True)
    ada.open("/suites/shop?tab=api")
    space = ada.page.get_by_role("region", name="Shared space")
    httpx.post(f"{ada.url}/mocks/rest/shop/shop/orders", json={"apple": 1})

    call = space.locator(".call", has_text="accepted")  # other tests have calls here, too
    expect(call).to_be_visible()
    call.locator("summary").press("Enter")
    httpx.get(f"{ada.url}/mocks/rest/shop/shop/nowhere")
    unmatched = space.get_by_role("region", name="Calls that no example answered")
    expect(unmatched).to_contain_text("/nowhere")
    expect(call.locator("dl")).to_be_visible()
    expect(call.locator("summary")).to_be_focused()


@pytest.fixture
def run(ada: Reader) -> Run:
    files = {str(path.relative_to(SHOP)): path.read_bytes() for path in SHOP.rglob("*.*")}
    surfaces = {"shop": "rest", "payments": "grpc"}
    return booted_run(
        node("psp", kind="mock", variant="mock", surfaces=list(surfaces), image=""),
        node("check", kind="test", after=["psp"]),
        principal=principal(ada),
        id_="shop",
        files=files,
        mocks={"psp": surfaces},
    )


def call(who: Reader, run: Run, path: str) -> int:
    headers = {"X-Partita-Step-Id": "check"}
    address = f"{who.url}/mocks/rest/shop@{run.id}/shop/{path}"
    return httpx.get(address, headers=headers).status_code


def test_the_calls_of_a_run_come_as_they_are_made(ada: Reader, run: Run):
    ada.open(f"/executions/{run.id}")
    page = ada.page
    page.get_by_role("tab", name="Mock calls").click()
    pane = page.get_by_role("tabpanel", name="Mock calls")
    expect(pane).to_contain_text("PARTITA_MOCK_PSP_SHOP_URL")

    assert call(ada, run, "goods?q=ea") == 200
    expect(pane.locator(".call")).to_contain_text(["/goods"])
    assert call(ada, run, "good") == 404
    expect(page.get_by_role("tab", name="Mock calls (1 unmatched)")).to_be_visible()
    unmatched = pane.get_by_role("region", name="Calls that no example answered")
    expect(unmatched).to_contain_text(re.compile("/good.*no match.*from check", re.DOTALL))
    expect(unmatched).to_contain_text("Nearest operation:")

    pane.get_by_label("Ended as").select_option(label="no match")
    expect(pane.locator(".call")).to_have_count(1)
    page.reload()
    expect(page.get_by_role("tab", selected=True)).to_have_text("Mock calls (1 unmatched)")


def test_axe_finds_nothing_serious_in_mocks(ada: Reader, run: Run, axe: str, tmp_path: Path):
    get_user_model().objects.update(is_admin=True)
    call(ada, run, "goods?q=ea")
    call(ada, run, "good")
    page, found = ada.page, []
    for scheme, (width, height) in zip(("light", "dark"), DESK_AND_PHONE, strict=True):
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        page.set_viewport_size({"width": width, "height": height})
        operation = opened(ada, "shop", "listGoods")
        operation.get_by_role("button", name="Send to listGoods").click()
        expect(operation.locator("[data-why] .candidates")).to_be_visible()
        expect(operation.locator("[data-answer-body]")).not_to_be_empty()
        expect(page.locator(".shared-space .call").first).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        found += findings(page, axe)
        ada.open(f"/executions/{run.id}?tab=mocks")
        page.locator(".call > summary").first.click()
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        found += findings(page, axe)

    assert found == []
