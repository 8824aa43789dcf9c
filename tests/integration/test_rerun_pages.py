"""Run again: the button, the key and the dialog with its plan, in Chromium on a real server."""

from __future__ import annotations

from typing import Any

import pytest
from django.db.models import F
from playwright.sync_api import Page, expect

from apps.accounts.models import Membership
from apps.executions.domain.rerun import RerunScope
from apps.executions.models import Execution, Step
from apps.executions.services.cancellations import cancel
from apps.executions.services.rerun import RerunRequest, launch_rerun, prepare_rerun
from tests.apps.executions.runs import Run, Worker, booted_run, node, profile
from tests.integration.pages import SCREENS, findings, picture, principal
from tests.support.browser import Reader

pytestmark = [
    pytest.mark.browser,
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("nobody_admits"),
]
FORTY = (
    node("db"),
    node("seed", after=["db"]),
    *(node(f"t{n}", kind="test") for n in range(3, 37)),
    *(node(f"t{n}", after=["seed"], kind="test") for n in (37, 38, 39)),  # begin last
    node("dump", on_failure=["t39"]),
)


def end_steps(worker: Worker, *wrong: str) -> None:
    while claimed := worker.claim():
        for step in claimed:
            (worker.fail if step in wrong else worker.end)(step)


def made(who: Reader, worker: Worker, *wrong: str, **facts: Any) -> Run:
    run = booted_run(*FORTY, principal=principal(who), **facts)
    end_steps(worker, *wrong)
    return run


@pytest.fixture
def failed(ada: Reader, worker: Worker) -> Run:
    """A healthy run, then one whose image and environment differ, of which three tests fail."""
    made(ada, worker, with_profile=profile(file_name="ci.yaml", env={"REGION": "eu"}))
    other = profile(env={"REGION": "us", "NEW": "x"})
    run = made(ada, worker, "t37", "t38", "t39", with_profile=other)
    ended = Step.objects.filter(started_at__isnull=False, finished_at__isnull=False)
    ended.update(finished_at=F("started_at"))  # on a busy machine they differ by seconds
    return run


def open_dialog(page: Page) -> Any:
    page.get_by_role("button", name="Run again").first.click()
    return page.get_by_role("dialog", name="Run again")


def plan_of_dialog(dialog: Any) -> dict[str, str]:
    expect(dialog.locator("[data-rerun-plan]")).to_have_attribute("aria-busy", "false")
    rows = dialog.locator("[data-rerun-steps] li").all()
    return {row.locator("code").inner_text(): row.inner_text().split(" ", 1)[1] for row in rows}


def test_failed_steps_run_again_from_the_page_with_the_plan_shown_before(ada: Reader, failed: Run):
    page = ada.page
    ada.open(f"/executions/{failed.id}")

    dialog = open_dialog(page)

    request = RerunRequest(scope=RerunScope.FAILED)
    plan = prepare_rerun(failed.principal, failed.id, request).plan
    assert plan_of_dialog(dialog) == {step["id"]: step["text"] for step in plan["steps"]}
    assert set(plan_of_dialog(dialog)) == {"db", "seed", "t37", "t38", "t39", "dump"}
    expect(dialog.locator("[data-rerun-sentence]")).to_contain_text("6 of 40 steps run again")
    expect(dialog.locator("summary")).to_have_text("34 steps do not run (not_selected)")
    dialog.get_by_role("button", name="Run again").dblclick()

    page.wait_for_url(lambda url: failed.id not in url and "/executions/run-" in url)
    again = Execution.objects.get(rerun_of=failed.id)  # one, in spite of the second click
    assert page.url.endswith(again.run_id)
    row = page.get_by_role("list", name="Attempts of this run")
    expect(row).to_contain_text("1 failed")
    expect(row.locator("[aria-current]")).to_have_text("2 queued")
    assert again.standings.count("n") == 34
    row.get_by_role("link", name="1 failed").click()
    page.wait_for_url(f"**/{failed.id}")
    expect(row.get_by_role("link", name="2 queued")).to_be_visible()


def test_the_key_opens_the_dialog_and_one_step_is_the_chosen_one(ada: Reader, failed: Run):
    page = ada.page
    ada.open(f"/executions/{failed.id}")
    page.locator("#step-t38").click()

    page.keyboard.press("r")
    dialog = page.get_by_role("dialog", name="Run again")
    expect(dialog).to_be_visible()
    plan_of_dialog(dialog)
    dialog.get_by_label("One step").check()

    expect(dialog.locator("[name=step]")).to_have_value("t38")
    expect(dialog.locator("[data-rerun-sentence]")).to_contain_text("3 of 40 steps run again")
    assert plan_of_dialog(dialog) == {
        "db": "needed by seed", "seed": "needed by t38", "t38": "chosen",
    }  # fmt: skip
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keyboard")).to_contain_text("run again, all of it")


def test_a_refusal_stands_in_the_dialog_and_nothing_starts(ada: Reader, worker: Worker):
    run = made(ada, worker)
    ada.open(f"/executions/{run.id}")
    dialog = open_dialog(ada.page)
    expect(dialog.get_by_label("All steps")).to_be_checked()  # of a healthy run
    dialog.get_by_label("What failed").check()

    expect(dialog.get_by_role("alert")).to_contain_text("no step of this run failed")
    expect(dialog.get_by_role("button", name="Run again")).to_be_disabled()
    assert Execution.objects.count() == 1
    assert all("409" in each for each in ada.complaints)  # what Chromium says of the refusal
    ada.complaints.clear()


def test_the_button_comes_when_the_run_ends(ada: Reader, worker: Worker):
    run = booted_run(node("a"), principal=principal(ada))
    ada.open(f"/executions/{run.id}")
    expect(ada.page.get_by_role("button", name="Run again")).to_be_hidden()
    ada.page.keyboard.press("r")
    expect(ada.page.get_by_role("dialog")).to_be_hidden()

    end_steps(worker, "a")

    expect(ada.page.get_by_role("button", name="Run again")).to_be_visible()


def test_viewers_have_no_button(ada: Reader, failed: Run):
    Membership.objects.update(role="viewer")
    ada.open(f"/executions/{failed.id}")

    expect(ada.page.get_by_role("heading", level=1)).to_be_visible()
    expect(ada.page.locator("[data-action=rerun], #rerun")).to_have_count(0)
    ada.page.keyboard.press("r")
    expect(ada.page.get_by_role("dialog")).to_be_hidden()


def test_what_differs_since_the_last_green_run_is_one_table(ada: Reader, failed: Run):
    ada.open(f"/executions/{failed.id}")
    part = ada.page.locator(".since-green")
    expect(part.locator("summary")).to_have_text("Since the last green run: 3 differences")

    part.locator("summary").click()

    rows = part.locator("tbody tr").all_inner_texts()
    assert [row.replace("\t", " ").replace("\n", " ").split() for row in rows] == [
        ["profile", "ci.yaml", "none"],
        ["env", "NEW", "(profile)", "not", "set", "set"],
        ["env", "REGION", "(profile)", "set", "another", "value"],
    ]
    assert "us" not in part.inner_text().split()


@pytest.mark.parametrize("screen", SCREENS)
def test_dialog_and_page_fit_their_window_and_axe_finds_nothing(
    ada: Reader, failed: Run, axe: str, screen: tuple[int, int, Any]
):
    width, height, scheme = screen
    request = RerunRequest(scope=RerunScope.FAILED)
    second = launch_rerun(failed.principal, failed.id, request).summary["id"]
    cancel(failed.principal, second)
    page = ada.page
    page.set_viewport_size({"width": width, "height": height})
    page.emulate_media(color_scheme=scheme)
    ada.open(f"/executions/{failed.id}")
    if width < 900:
        page.get_by_role("tab", name="Why").click()
    page.locator(".since-green summary").click()
    picture(page, f"rerun-page-{width}-{scheme}")
    assert findings(page, axe) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width

    dialog = open_dialog(page)
    plan_of_dialog(dialog)
    dialog.get_by_label("One step").check()
    plan_of_dialog(dialog)
    dialog.get_by_label("What failed").check()
    plan_of_dialog(dialog)
    picture(page, f"rerun-dialog-{width}-{scheme}")
    assert findings(page, axe) == []
    box = dialog.bounding_box()
    assert box is not None
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= width
    assert box["height"] <= height
    ada.open("/")
    expect(page.locator("[data-slot=attempt]").filter(has_text="attempt 2")).to_have_count(1)
    picture(page, f"rerun-home-{width}-{scheme}")
