"""The editor of a profile in a browser: it checks while one types, and the keyboard is enough."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.support.browser import Reader

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def written(reader: Reader) -> Page:
    """The page of a new profile, its fields filled in by keyboard, the text being written."""
    reader.open("/profiles/hello/-/new")
    page, keys = reader.page, reader.page.keyboard
    page.get_by_label("Name", exact=True).focus()
    keys.type("Nightly")
    keys.press("Tab")
    keys.type("nightly.yaml")
    for _ in range(3):  # scope, description, the text
        keys.press("Tab")
    expect(page.locator("#yaml")).to_be_focused()
    keys.press("Control+a")
    keys.type("env:\n  A: [1]\n")
    return page


def test_faults_are_shown_while_typing_and_lead_to_their_places(ada: Reader):
    page = written(ada)

    place = page.get_by_role("link", name="line 2, column 6")
    expect(place).to_be_visible()
    assert page.locator("[data-gutter]").inner_text().split() == ["1", "2", "3"]
    place.focus()
    page.keyboard.press("Enter")
    expect(page.locator("#yaml")).to_be_focused()
    chosen = page.evaluate(
        "(() => { const text = document.getElementById('yaml');"
        " return text.value.slice(text.selectionStart, text.selectionEnd); })()"
    )
    assert chosen == "[1]"
    page.keyboard.type("one")
    expect(page.locator("#check")).to_contain_text("Valid.")
    expect(page.locator("#check")).to_contain_text("this profile")


def test_a_profile_is_saved_explained_and_deleted(ada: Reader):
    page = written(ada)
    page.fill("#yaml", "env: {A: one}\n")
    page.get_by_role("button", name="Save").focus()
    page.keyboard.press("Enter")

    expect(page.get_by_role("status")).to_contain_text("Saved.")
    assert page.url.endswith("/profiles/hello/nightly?saved")
    steps = page.locator("select[name=step]")
    steps.select_option(index=1)
    chosen = steps.input_value()
    expect(page.locator("#env")).to_contain_text(f"PARTITA_STEP_ID {chosen}")
    page.get_by_text("Delete this profile").click()
    page.get_by_role("button", name="Delete nightly.yaml").click()
    page.wait_for_url("**/profiles/hello")
    assert "nightly.yaml" not in page.content()
