"""A step again on the page of its run: the dialog, the log below the step, and who may ask."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Page, expect

from apps.accounts.models import Membership
from apps.executions import api as executions
from apps.executions.domain.repeats import RepeatRequest
from apps.executions.models import StepRepeat
from apps.executions.services.repeats import repeat_step
from tests.apps.executions.kept import chunk, completion, end_keeping, take
from tests.apps.executions.runs import Run, Worker
from tests.apps.executions.test_repeats import upload
from tests.integration.pages import SCREENS, findings, kept_run, picture
from tests.support.browser import Reader

pytestmark = [
    pytest.mark.browser,
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("nobody_admits"),
]


@pytest.fixture
def kept(ada: Reader, worker: Worker) -> Run:
    return kept_run(ada, worker)


def open_step(reader: Reader, run: Run, step: str = "seed") -> Any:
    """Open the page at a step; return the part with what is below it."""
    reader.open(f"/executions/{run.id}?step={step}")
    if (reader.page.viewport_size or {"width": 0})["width"] < 700:
        reader.page.get_by_role("tab", name="Steps").click()
    head = reader.page.locator(f"#step-{step}")
    if head.get_attribute("aria-expanded") != "true":
        head.click()
    return reader.page.locator(f"#step-more-{step}")


def dialog(page: Page) -> Any:
    return page.locator("dialog#repeat")


def test_a_step_runs_again_and_its_log_is_followed(ada: Reader, kept: Run, worker: Worker):
    page, more = ada.page, open_step(ada, kept)
    more.get_by_role("button", name="Run this step again").click()
    expect(dialog(page).get_by_role("heading")).to_have_text("Run seed again")
    dialog(page).get_by_label("Command").fill("true")
    dialog(page).get_by_label("Variables").fill("BREAK=no")
    dialog(page).get_by_role("button", name="Run again").click()
    summary = more.locator("summary")
    expect(summary).to_have_text("After the verdict: #2 waits for a runner")
    expect(summary).to_be_focused()
    [claim] = take(worker)
    executions.record_repeat_lines(claim, chunk("row 1 of 3"))
    expect(more.get_by_role("region", name="Log of seed #2")).to_contain_text("row 1 of 3")
    executions.store_repeat_artifact(claim, upload("made.txt", b"made"))
    executions.complete_repeat(claim, completion(final_seq=1))
    expect(summary).to_contain_text("After the verdict: #2 succeeded in")
    expect(more.get_by_role("link", name="made.txt")).to_be_visible()
    row = StepRepeat.objects.get()
    assert (row.command, row.env) == ("true", {"BREAK": "no"})
    assert kept.statuses["seed"] == "failed"


def test_the_keyboard_alone_opens_fills_sends_and_leaves_the_dialog(ada: Reader, kept: Run):
    page, more = ada.page, open_step(ada, kept)
    button = more.get_by_role("button", name="Run this step again")
    button.focus()
    page.keyboard.press("Enter")
    expect(dialog(page).get_by_label("Command")).to_be_focused()
    expect(dialog(page)).to_contain_text(f"partita run again {kept.id} seed --files .")
    page.keyboard.press("Escape")
    expect(dialog(page)).to_be_hidden()
    expect(button).to_be_focused()
    page.keyboard.press("Enter")
    page.keyboard.type("false")
    for key in ("Tab", "Tab", "Tab", "Enter"):  # variables, Close, Run again
        page.keyboard.press(key)
    expect(more.locator("summary")).to_be_focused()
    assert StepRepeat.objects.get().command == "false"


def test_what_is_wrong_is_said_in_the_dialog(ada: Reader, kept: Run):
    page, more = ada.page, open_step(ada, kept)
    more.get_by_role("button", name="Run this step again").click()
    for text, words in (("BREAK", "write NAME=value"), ("1A=x", "begins with no digit")):
        dialog(page).get_by_label("Variables").fill(text)
        dialog(page).get_by_role("button", name="Run again").click()
        expect(dialog(page).get_by_role("alert")).to_contain_text(words)
    assert not StepRepeat.objects.exists()
    assert all("400" in each for each in ada.complaints)  # what Chromium says of the refusal
    ada.complaints.clear()


def test_one_that_waits_is_canceled(ada: Reader, kept: Run):
    repeat_step(kept.principal, kept.id, RepeatRequest(step="seed"))
    more = open_step(ada, kept)
    more.locator("summary").click()
    more.get_by_role("button", name="Cancel").click()
    expect(more.locator("summary")).to_contain_text("#2 was canceled")


def test_a_viewer_reads_and_after_the_end_nobody_asks(ada: Reader, kept: Run):
    repeat_step(kept.principal, kept.id, RepeatRequest(step="seed"))
    Membership.objects.update(role="viewer")
    more = open_step(ada, kept)
    expect(more.locator("summary")).to_contain_text("#2 waits")
    expect(more.get_by_role("button")).to_have_count(0)
    Membership.objects.update(role="admin")
    end_keeping(kept)
    more = open_step(ada, kept)
    expect(more.get_by_role("button", name="Run this step again")).to_have_count(0)


@pytest.mark.parametrize("screen", SCREENS)
def test_it_fits_its_window_and_axe_finds_nothing(
    ada: Reader, axe: str, kept: Run, worker: Worker, screen: tuple[int, int, Any]
):
    width, height, scheme = screen
    page = ada.page
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": width, "height": height})
    repeat_step(kept.principal, kept.id, RepeatRequest(step="seed"))
    [claim] = take(worker)
    executions.record_repeat_lines(claim, chunk("a long line " * 30))
    more = open_step(ada, kept)
    more.locator("summary").click()
    expect(more.get_by_role("region", name="Log of seed #2")).to_contain_text("a long line")
    moves = "document.documentElement.scrollWidth > document.documentElement.clientWidth"
    assert not page.evaluate(moves)
    picture(page, f"repeat-step-{width}-{scheme}")
    assert findings(page, axe) == []
    more.get_by_role("button", name="Run this step again").click()
    picture(page, f"repeat-dialog-{width}-{scheme}")
    assert findings(page, axe) == []
