"""The tab Shell on the page of a run: a terminal in Chromium over a runtime in memory."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from apps.accounts.models import Membership
from apps.executions.models import Step
from apps.shells.models import ShellSession
from kernel import clock
from tests.apps.executions.runs import Run, Worker, booted_run, node
from tests.apps.shells import conftest as shells
from tests.apps.shells.conftest import await_shell, await_state
from tests.integration.pages import SCREENS, findings, picture, principal
from tests.support.browser import Reader, Server
from tests.support.fake_shells import RuntimeWithShells
from tests.support.npm import npm_files
from tests.support.processes import ROOT, until

pytestmark = [
    pytest.mark.browser,
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("nobody_admits"),
]
runtime, start_runner = shells.runtime, shells.start_runner
VENDOR = ROOT / "static" / "console" / "vendor"
XTERM, FIT = ("@xterm/xterm", "6.0.0"), ("@xterm/addon-fit", "0.11.0")
SUBSTITUTIONS = (  # a policy without inline styles; no map of the source
    ('createElement("style")', 'createElement("terminal-style")', 3),
    (
        't.setAttribute("style",`${t.getAttribute("style")||""}${e};`)',
        "t.style.cssText+=`;${e}`",
        1,
    ),
    ("//# sourceMappingURL=xterm.mjs.map\n", "", 1),
)


def test_the_vendored_terminal_is_the_published_one_but_for_its_styles():
    paths = ("lib/xterm.mjs", "css/xterm.css", "LICENSE")
    module, css, license_text = npm_files(*XTERM, *paths)
    text = module.read_text()
    for published, ours, count in SUBSTITUTIONS:
        assert text.count(published) == count
        text = text.replace(published, ours)
    fit, fit_license = npm_files(*FIT, "lib/addon-fit.mjs", "LICENSE")
    fit_text = fit.read_text().replace("//# sourceMappingURL=addon-fit.mjs.map", "")

    assert (VENDOR / "xterm.js").read_text().strip() == text.strip()
    assert (VENDOR / "xterm-addon-fit.js").read_text().strip() == fit_text.strip()
    for name, source in (
        ("xterm.css", css),
        ("xterm.LICENSE.txt", license_text),
        ("xterm-addon-fit.LICENSE.txt", fit_license),
    ):
        assert (VENDOR / name).read_bytes() == source.read_bytes()


@pytest.fixture
def kept(ada: Reader, worker: Worker, runtime: RuntimeWithShells, start_runner: Any) -> Run:
    run = booted_run(
        node("db", kind="service"), node("seed", after=["db"]), node("check", after=["seed"]),
        principal=principal(ada), keep_ms=1_800_000,
    )  # fmt: skip
    worker.claim()
    worker.report("db", "healthy")
    worker.claim()
    worker.fail("seed")
    worker.end("db")
    assert run.status == "Failed"
    Step.objects.filter(execution_id=run.pk, step_id__in=["db", "seed"]).update(
        unit_started_at=clock.now()
    )
    for step in ("db", "seed"):
        runtime.give_unit(run.id, step)
    runtime.notice = "a copy of the ended step"
    start_runner(runtime, run.row.bound_agent_id)
    return run


def open_shell(who: Reader, run: Run) -> Page:
    page = who.page
    who.open(f"/executions/{run.id}?tab=shell")
    page.locator("#shell-step").select_option("seed")
    page.get_by_role("button", name="Open shell").last.click()
    expect(page.locator("#shell-status")).to_have_text("A shell in seed is open.")
    return page


def screen(page: Page) -> Any:
    return page.locator("#shell-terminal .xterm-rows")


def test_a_person_types_and_sees_the_output(ada: Reader, kept: Run, runtime: RuntimeWithShells):
    page = open_shell(ada, kept)
    expect(page.locator("#shell-notice")).to_have_text("a copy of the ended step")
    expect(page.locator(".xterm-helper-textarea")).to_be_focused()
    page.keyboard.type("hello")
    page.keyboard.press("Enter")
    expect(screen(page)).to_contain_text("said: hello")
    page.keyboard.press("Control+c")
    page.keyboard.press("j")  # a shortcut of the page elsewhere
    shell = await_shell(runtime, ShellSession.objects.get().pk)
    until(lambda: shell.written.endswith(b"\x03j"), within_s=20, what="the keys arrive")
    columns = int(page.evaluate("document.querySelector('#shell-terminal').clientWidth"))
    assert shell.request.columns > columns / 12

    page.get_by_role("button", name="End the shell").click()
    expect(page.locator("#shell-status")).to_have_text(
        "The shell in seed has ended: someone ended the shell."
    )
    expect(page.locator("#shell-list")).to_contain_text("Ada Lovelace (ada@example.org)")
    expect(page.locator("#shell-list")).to_contain_text(re.compile(r"ended after \d+ s"))


def test_colors_are_shown_under_the_policy(ada: Reader, kept: Run, runtime: RuntimeWithShells):
    page = open_shell(ada, kept)
    shell = await_shell(runtime, ShellSession.objects.get().pk)
    shell.print(
        b"\r\n\x1b[31mred\x1b[0m \x1b[38;2;10;200;30mexact\x1b[0m \x1b]0;hostile\x07title\r\n"
    )
    page.keyboard.type("x\r")
    expect(screen(page)).to_contain_text("exact title")

    color = (
        "name => getComputedStyle([...document.querySelectorAll('.xterm-rows span')]"
        ".find(each => each.textContent.includes(name))).color"
    )
    plain = page.evaluate("getComputedStyle(document.querySelector('.xterm-rows')).color")
    assert page.evaluate(color, "red") != plain
    assert page.evaluate(color, "exact") not in (plain, page.evaluate(color, "red"))
    assert "hostile" not in page.title()


def test_the_focus_can_leave_by_a_key_that_the_page_names(ada: Reader, kept: Run):
    page = open_shell(ada, kept)
    expect(page.locator("#shell-place")).to_contain_text("F6 leaves the terminal")
    page.keyboard.press("Tab")
    expect(page.locator(".xterm-helper-textarea")).to_be_focused()
    page.keyboard.press("F6")
    expect(page.get_by_role("button", name="End the shell")).to_be_focused()


def test_the_page_comes_back_after_the_server_was_killed(
    ada: Reader, kept: Run, server: Server, runtime: RuntimeWithShells
):
    page = open_shell(ada, kept)
    server.kill()
    expect(page.locator("#shell-status")).to_contain_text("Connection lost")
    shell = await_shell(runtime, ShellSession.objects.get().pk)
    shell.print(b"meanwhile\r\n")
    server.start()
    expect(page.locator("#shell-status")).to_have_text("A shell in seed is open.")
    expect(screen(page)).to_contain_text("meanwhile")
    page.locator(".xterm-helper-textarea").focus()
    page.keyboard.type("again\r")
    expect(screen(page)).to_contain_text("said: again")
    ada.complaints.clear()  # of the browser, while there was no server


def test_another_page_returns_to_the_shell(ada: Reader, kept: Run):
    page = open_shell(ada, kept)
    page.keyboard.type("before\r")
    expect(screen(page)).to_contain_text("said: before")
    ada.open(f"/executions/{kept.id}?tab=shell")
    page.get_by_role("button", name="Return to shell").click()
    expect(screen(page)).to_contain_text("said: before")
    page.keyboard.type("after\r")
    expect(screen(page)).to_contain_text("said: after")


def test_a_step_has_a_button_and_one_that_never_ran_has_none(ada: Reader, kept: Run):
    page = ada.page
    ada.open(f"/executions/{kept.id}")
    page.locator("#step-more-seed").get_by_role("button", name="Open shell").click()
    expect(page.locator("#pane-shell")).to_be_visible()
    expect(page.locator("#shell-step")).to_have_value("seed")
    options = page.locator("#shell-step").locator("option")
    assert sorted(options.all_text_contents()) == ["db", "seed"]


def test_a_refusal_is_shown(ada: Reader, kept: Run, runtime: RuntimeWithShells):
    runtime.refusal = "the image has no shell; name a program"
    page = ada.page
    ada.open(f"/executions/{kept.id}?tab=shell")
    page.get_by_role("button", name="Open shell").last.click()
    expect(page.locator("#shell-status")).to_contain_text("the image has no shell; name a program")


def test_who_may_not_open_shells_has_no_tab(ada: Reader, kept: Run):
    Membership.objects.update(role="viewer")
    ada.open(f"/executions/{kept.id}")
    expect(ada.page.get_by_role("tab", name="Shell")).to_have_count(0)


def test_without_anything_to_enter_the_page_says_what_to_do(ada: Reader, worker: Worker):
    run = booted_run(node("seed"), principal=principal(ada))
    worker.claim()
    worker.fail("seed")
    ada.open(f"/executions/{run.id}?tab=shell")
    expect(ada.page.locator("#shell-none")).to_contain_text("--keep 30m")


@pytest.mark.parametrize("screen_size", SCREENS)
def test_the_page_fits_its_window_and_axe_finds_nothing(
    ada: Reader, axe: str, kept: Run, screen_size: tuple[int, int, str]
):
    width, height, theme = screen_size
    page = ada.page
    page.set_viewport_size({"width": width, "height": height})
    page.emulate_media(color_scheme=theme)  # type: ignore[arg-type]
    open_shell(ada, kept)
    page.keyboard.type("hello\r")
    expect(screen(page)).to_contain_text("said: hello")
    picture(page, f"shell-{width}-{theme}")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert findings(page, axe) == []
    page.get_by_role("button", name="End the shell").click()
    await_state(ShellSession.objects.get().pk, "ended")
