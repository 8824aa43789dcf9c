"""What a queued run waits for, on its page and in its row, in Chromium on a real server."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import expect

from apps.executions.services.admission import dispatch
from tests.apps.executions.runs import Run, node, queued_run
from tests.apps.executions.test_places import end_run
from tests.integration.pages import findings, picture, principal
from tests.support.browser import Reader
from tests.support.people import somebody

pytestmark = [
    pytest.mark.browser,
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("nobody_admits"),
]
SCREENS = [
    (width, height, scheme)
    for width, height in ((1440, 900), (1024, 768), (390, 844))
    for scheme in ("light", "dark")
]
WAITS = "10 of 10 places of this installation are used by other workspaces"


@pytest.fixture
def waiting(ada: Reader) -> Run:
    """A run in the queue, behind ten active ones of two other workspaces."""
    others = [somebody(), somebody()]
    end_run(queued_run(node("a"), principal=others[0]), after_s=600)
    for nth in range(10):
        queued_run(node("a"), principal=others[nth % 2])
    dispatch()
    run = queued_run(node("build"), node("check", after=["build"]), principal=principal(ada))
    dispatch()
    return run


def test_a_queued_run_says_what_it_waits_for_and_when_it_is_expected(
    ada: Reader, waiting: Run, axe: str
):
    page = ada.page
    ada.open(f"/executions/{waiting.id}")

    head = page.locator(".run-queue")
    expect(head).to_contain_text(WAITS)
    expect(head).to_contain_text("Expected start")
    assert findings(page, axe) == []

    ada.open("/")
    expect(page.locator(f"[data-run='{waiting.id}']")).to_contain_text(WAITS)


@pytest.mark.parametrize(("width", "height", "scheme"), SCREENS)
def test_the_queue_fits_every_screen(
    ada: Reader, waiting: Run, width: int, height: int, scheme: Any
):
    page = ada.page
    page.set_viewport_size({"width": width, "height": height})
    page.emulate_media(color_scheme=scheme)
    ada.open(f"/executions/{waiting.id}")

    expect(page.locator(".run-queue")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    picture(page, f"queued-run-{width}-{scheme}")
