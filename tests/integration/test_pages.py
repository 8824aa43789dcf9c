"""The pages as readers meet them: Chromium on a real server; the test plays the supervisor."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import APIResponse, Browser, Page, Route, expect

from apps.executions import api as executions
from apps.executions.services.admission import dispatch
from apps.executions.services.sweep import sweep
from kernel.agent_protocol import ProbeProgress, StateReport, job_of
from tests.apps.executions.runs import Run, Worker, booted_run, let_retries_be_due, node, queued_run
from tests.integration.pages import EVIL, open_run, principal, three_steps
from tests.support.browser import PASSWORD, Reader, Server, reader

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


# scrolling draws in the next frame, and what is not at hand is shown as loading first
IS_DRAWN_NEAR = """
(line) => {
  const rows = [...document.querySelectorAll(".log-row")];
  const numbers = rows.map((row) => Number(row.querySelector(".log-no").dataset.line));
  return rows.every((row) => row.dataset.kind !== "loading")
    && numbers.every((number, at) => number === numbers[0] + at)
    && Math.abs(numbers[0] - line) < 200;
}
"""


def log_rows(page: Page) -> dict[int, str]:
    """What the log shows now: line number → text."""
    shown = page.locator(".log-row").evaluate_all(
        "rows => rows.map(row => [Number(row.querySelector('.log-no').dataset.line),"
        " row.querySelector('.log-text').textContent])"
    )
    return dict(shown)


def test_a_newcomer_signs_up_launches_a_suite_and_sees_it_end(
    browser: Browser, server: Server, worker: Worker
):
    with reader(browser, server) as who:
        page = who.page
        who.open("/suites")
        page.get_by_role("link", name="Create an account").click()
        page.get_by_label("Full name").fill("Ada Lovelace")
        page.get_by_label("Email").fill("ada@example.org")
        page.get_by_label("Password").fill(PASSWORD)
        page.get_by_role("button", name="Create account").click()
        expect(page).to_have_url(f"{server.url}/suites")
        page.get_by_role("link", name="Runs", exact=True).click()
        page.get_by_role("button", name="Launch", exact=True).click()
        dialog = page.get_by_role("dialog", name="Launch a suite")
        dialog.get_by_role("combobox", name="Suite").select_option("hello")
        dialog.get_by_role("button", name="Launch").click()

        page.wait_for_url("**/executions/run-*")
        expect(page.locator(".run-title .status-text")).to_have_text(re.compile("Queued|Booting"))
        play_to_the_end(worker)
        expect(page.locator(".run-title .status-text")).to_have_text("Healthy")
        expect(page.locator(".step[data-status=healthy]")).to_have_count(4)
        expect(page.locator("#log-link")).to_have_attribute("data-link", "ended")
        assert who.complaints == []


def play_to_the_end(worker: Worker) -> None:
    """Claims whatever is ready, says a line, ends it well; services end when the run stops them."""
    dispatch()
    services = []
    while steps := worker.claim():
        for step in steps:
            worker.report(step, "running")
            worker.log(step, f"{step} says hello")
            if worker.jobs[step]["node"]["kind"] == "service":
                worker.report(step, "healthy")
                services.append(step)
            else:
                worker.end(step)
        dispatch()
    for step in services:
        worker.end(step)
    sweep()


def test_text_of_a_suite_stays_text(ada: Reader, worker: Worker):
    run = booted_run(node("seed", image=EVIL, message=EVIL), principal=principal(ada))
    worker.claim()
    worker.log("seed", EVIL, "\x1b[31mred\x1b[0m \x1b]8;;http://evil/\x07link\x1b]8;;\x07 plain")
    worker.fail("seed", error=EVIL)

    page = open_run(ada, run)

    expect(page.locator(".log-text", has_text="onerror").first).to_be_visible()
    expect(page.locator(".log-text .sgr-fg-1")).to_have_text("red")
    expect(page.locator(".log-text", has_text="red link plain")).to_have_count(1)
    assert page.locator("img, .log-text a").count() == 0


def test_the_page_follows_a_run_and_picks_its_first_failure(ada: Reader, worker: Worker):
    run = three_steps(ada)
    page = open_run(ada, run)
    expect(page.locator(".step[data-step=check]")).to_have_attribute("data-status", "pending")

    worker.claim()
    worker.end("seed")
    worker.claim()
    worker.log("check", "one", "two")
    expect(page.locator(".node[data-node=check]")).to_have_attribute("data-status", "running")
    worker.fail("check", error="exit code 3, expected 0", exit_code=3)

    expect(page.locator(".run-title .status-text")).to_have_text("Running, failing")
    expect(page.locator(".step.is-selected .step-name")).to_have_text("check")
    expect(page.locator(".step.is-selected")).to_contain_text("code 3, expected 0")
    expect(page.locator("#log-filter")).to_have_value("check")
    expect(page.locator("#run-live")).to_have_text(re.compile("^Running, failing after"))
    worker.claim()
    worker.end("tidy")
    expect(page.locator(".run-title .status-text")).to_have_text("Failed")
    expect(page.locator("[data-action=cancel]")).to_be_hidden()


def test_a_late_fragment_does_not_take_a_step_back(ada: Reader, worker: Worker):
    run = three_steps(ada)
    page = open_run(ada, run)
    page.evaluate(
        """() => {
          window.shown = [];
          const note = () => window.shown.push(
            document.querySelector(".step[data-step=seed]").dataset.status
            + " of " + document.querySelector(".run-title .status-text").textContent);
          const what = { subtree: true, childList: true, attributes: true };
          new MutationObserver(note).observe(document.querySelector("#run"), what);
        }"""
    )
    late: list[tuple[Route, APIResponse]] = []
    page.route("**/panels", lambda route: late.append((route, route.fetch())), times=1)
    worker.claim()
    expect(page.locator(".step[data-step=seed]")).to_have_attribute("data-status", "running")
    while not late:
        page.wait_for_timeout(50)
    worker.end("seed")
    expect(page.locator(".step[data-step=seed]")).to_have_attribute("data-status", "healthy")

    page.evaluate("window.shown = []")
    route, response = late[0]
    with page.expect_response("**/panels"):  # the next fragment follows the late one
        route.fulfill(response=response)
        page.wait_for_function("() => window.shown.length > 0")

    assert {each.partition(" ")[0] for each in page.evaluate("window.shown")} == {"healthy"}


def test_an_event_older_than_the_fragment_shown_changes_nothing(ada: Reader, worker: Worker):
    page = open_run(ada, three_steps(ada))
    step = page.locator(".step[data-step=seed]")
    page.route("**/panels", lambda route: None)  # never answered: what is shown stays
    page.evaluate(
        """() => {
          document.getElementById("run-head").dataset.lastEvent = 1000;
          document.querySelector(".step[data-step=seed]").dataset.status = "healthy";
        }"""
    )
    with page.expect_request("**/panels"):  # it follows each event
        worker.claim()

    expect(step).to_have_attribute("data-status", "healthy")


def test_a_service_that_is_not_ready_shows_what_its_probe_answers(ada: Reader, worker: Worker):
    booted = booted_run(node("db", kind="service"), principal=principal(ada))
    worker.claim()
    page = open_run(ada, booted)
    refused = ProbeProgress(answer=f"port 8080: {EVIL}", tries=12, time_left_ms=600_000)
    db = job_of(worker.jobs["db"])
    executions.renew(worker.supervisor, [db], {}, {db: refused})

    line = page.locator('.step[data-step="db"] [data-probe]')
    expect(line).to_contain_text(f"port 8080: {EVIL} · 12 tries · 09:", timeout=30_000)
    seen = line.text_content()
    expect(line).not_to_have_text(seen or "")  # the time left ticks
    worker.report("db", "healthy")
    expect(line).to_be_hidden(timeout=30_000)


def test_a_step_whose_container_cannot_start_shows_why_until_it_runs(ada: Reader, worker: Worker):
    booted = booted_run(node("seed"), principal=principal(ada))
    worker.claim()
    page = open_run(ada, booted)
    short = f"the namespace's quota is used up: {EVIL}"
    waiting = StateReport(job=job_of(worker.jobs["seed"]), state="waiting", message=short)
    executions.record_reports(worker.supervisor, states=[waiting])

    line = page.locator('.step[data-step="seed"] [data-probe]')
    expect(line).to_have_text(short, timeout=30_000)
    worker.report("seed", "running")
    expect(line).to_be_hidden(timeout=30_000)


def test_a_queued_run_shows_its_plan(nobody_admits: None, ada: Reader):
    run = queued_run(node("seed"), node("check", after=["seed"]), principal=principal(ada))

    page = open_run(ada, run)

    expect(page.locator(".run-title .status-text")).to_have_text("Queued")
    expect(page.locator(".node")).to_have_count(2)
    expect(page.locator("#log-link")).to_have_attribute("data-link", "live")


def test_scrolling_up_pauses_and_the_pill_counts_what_comes(ada: Reader, worker: Worker):
    run = booted_run(node("seed"), principal=principal(ada))
    worker.claim()
    worker.log("seed", *(f"line {number}" for number in range(500)))
    page = open_run(ada, run)
    follow = page.get_by_role("button", name="Follow", exact=True)
    expect(page.get_by_text("line 499", exact=True)).to_be_visible()
    expect(follow).to_have_attribute("aria-pressed", "true")

    page.locator("#log").hover()
    page.mouse.wheel(0, -2000)
    expect(follow).to_have_attribute("aria-pressed", "false")
    worker.log("seed", "late 1", "late 2", "late 3", seq=500)
    pill = page.locator("#log-new")
    expect(pill).to_have_text("3 new lines")
    pill.click()

    expect(page.get_by_text("late 3", exact=True)).to_be_visible()
    expect(follow).to_have_attribute("aria-pressed", "true")
    expect(pill).to_be_hidden()


def long_run(who: Reader, worker: Worker, lines: int) -> tuple[Run, int]:
    """A run with that much output; also the stream id of its first output line."""
    run = booted_run(node("seed"), node("noise"), principal=principal(who))
    worker.claim()
    for start in range(0, lines, 1000):
        worker.log("seed", *(f"line {start + at}" for at in range(1000)), seq=start)
    worker.log("noise", "a needle")
    first = executions.detail(principal(who), run.id)["lastLogId"] - lines
    return run, first


def test_any_place_of_a_long_log_shows_its_own_lines(ada: Reader, worker: Worker):
    run, first = long_run(ada, worker, 120_000)
    page = open_run(ada, run)
    expect(page.locator(".log-text", has_text="a needle")).to_be_visible()

    for place in (0.5, 0.031, 0.97, 0.0):
        page.locator("#log").evaluate(
            "(log, place) => { log.scrollTop = place * (log.scrollHeight - log.clientHeight); }",
            place,
        )
        page.wait_for_function(IS_DRAWN_NEAR, arg=place * 120_000)
        rows = log_rows(page)
        assert 20 < len(rows) < 100
        assert sorted(rows) == list(range(min(rows), max(rows) + 1))
        assert all(
            text == f"line {number - first}" for number, text in rows.items()
            if text.startswith("line ")
        )  # fmt: skip


def test_the_whole_log_is_searched_and_a_hit_is_shown(ada: Reader, worker: Worker):
    run, first = long_run(ada, worker, 20_000)
    page = open_run(ada, run)
    expect(page.locator(".log-text", has_text="a needle")).to_be_visible()

    page.keyboard.press("/")
    page.keyboard.type("line 777")
    page.keyboard.press("Enter")
    expect(page.locator("#log-hits")).to_have_text("1 of 11")
    expect(page.locator(".log-row.is-marked .log-text")).to_have_text("line 777")
    page.locator("#log").focus()
    page.keyboard.press("n")

    expect(page.locator(".log-row.is-marked .log-text")).to_have_text("line 7770")
    ada.open(f"/executions/{run.id}#L{first + 5000}")
    page.reload()
    expect(page.locator(".log-row.is-marked .log-text")).to_have_text("line 5000")


def test_a_hit_far_to_the_right_is_in_sight_and_its_line_can_be_read_whole(
    ada: Reader, worker: Worker
):
    run = booted_run(node("seed"), principal=principal(ada))
    worker.claim()
    worker.log("seed", "short", "x" * 3000 + " \x1b[31mneedle\x1b[0m " + "y" * 50, "after")
    page = open_run(ada, run)
    expect(page.locator(".log-text", has_text="after")).to_be_visible()
    assert page.locator("#log").evaluate("log => log.scrollLeft") == 0

    page.keyboard.press("/")
    page.keyboard.type("needle")
    page.keyboard.press("Enter")

    line = page.locator("#log-line")
    expect(line.locator("pre")).to_have_text("x" * 3000 + " needle " + "y" * 50)
    expect(line.locator("p")).to_contain_text("seed")
    page.wait_for_function("() => document.getElementById('log').scrollLeft > 10000")
    hit = "[...CSS.highlights.get('log-hit')].map(range => range.toString())"
    assert page.evaluate(hit) == ["needle"]
    assert not page.evaluate("document.documentElement.scrollWidth > innerWidth")
    line.get_by_role("button", name="Close the line").click()
    expect(line).to_be_hidden()
    expect(page.locator(".log-row.is-marked")).to_have_count(0)


def test_lines_can_show_the_time_of_day(ada: Reader, worker: Worker):
    run = booted_run(node("seed"), principal=principal(ada))
    worker.claim()
    worker.log("seed", "hello")
    page = open_run(ada, run)
    row = page.locator(".log-row", has=page.get_by_text("hello", exact=True))
    expect(row.locator(".log-time")).to_have_text(re.compile(r"^\d\d:\d\d$"))

    page.get_by_role("button", name="Clock times").click()
    expect(row.locator(".log-time")).to_have_text(re.compile(r"^\d\d:\d\d:\d\d$"))
    page.reload()
    expect(row.locator(".log-time")).to_have_text(re.compile(r"^\d\d:\d\d:\d\d$"))


def test_attempts_of_a_step_are_divided(ada: Reader, worker: Worker):
    run = booted_run(node("seed", retries=1), principal=principal(ada))
    worker.claim()
    worker.log("seed", "first try")
    worker.fail("seed")
    let_retries_be_due()
    sweep()
    worker.claim()
    worker.log("seed", "second try")
    page = open_run(ada, run)

    page.locator(".step[data-step=seed] .step-head").click()

    divided = page.locator(".log-row.begins-attempt .log-text")
    expect(divided).to_have_count(1)
    expect(divided).to_have_attribute("data-attempt", "2")


def test_the_clock_of_a_running_step_goes_on(ada: Reader, worker: Worker):
    run = booted_run(node("seed"), node("later", after=["seed"]), principal=principal(ada))
    worker.claim()
    worker.report("seed", "running")
    page = open_run(ada, run)
    took = page.locator(".step[data-step=seed] .step-took")

    expect(took).to_have_text(re.compile(r"^[1-9]\d* s$"))
    before = took.inner_text()
    expect(took).not_to_have_text(before)
    expect(page.locator(".step[data-step=later] .step-took")).to_have_text("")
    expect(page.locator(".run-title .status-text")).to_have_text("Booting")
    worker.end("seed")
    expect(page.locator(".run-title .status-text")).to_have_text("Running")
    expect(took).to_have_text(re.compile(r"^[\d.]+ m?s$"))


def test_the_parts_of_a_run_are_tabs_that_the_address_names(ada: Reader, worker: Worker):
    run = booted_run(node("seed"), principal=principal(ada))
    page = open_run(ada, run)
    log, events = page.locator("#log"), page.locator("#run-events li")
    expect(page.get_by_role("tab", selected=True)).to_have_text("Log")
    expect(page.locator("#pane-graph")).to_be_hidden()

    page.get_by_role("tab", name="Log").press("ArrowRight")
    expect(page.get_by_role("tab", name="Tests")).to_be_focused()
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("tab", name="Artifacts")).to_be_focused()
    page.keyboard.press("ArrowRight")
    expect(page.locator("#pane-graph")).to_be_visible()
    expect(log).to_be_hidden()
    page.keyboard.press("End")
    expect(page).to_have_url(re.compile(r"\?tab=events$"))
    expect(events.filter(has_text="admitted")).to_have_count(1)
    worker.claim()
    worker.end("seed")
    expect(events.filter(has_text="ended as expected")).to_have_count(1)
    assert len(events.all()) == len(set(events.all_inner_texts()))

    page.reload()
    expect(page.get_by_role("tab", selected=True)).to_have_text("Events")
    expect(events.filter(has_text="ended as expected")).to_have_count(1)
    ada.open(f"/executions/{run.id}?tab=graph#L2")
    page.reload()
    expect(page.locator(".log-row.is-marked")).to_be_visible()
    expect(page.get_by_role("tab", selected=True)).to_have_text("Log")


def test_a_click_on_a_tab_before_the_scripts_have_started_is_not_lost(ada: Reader, worker: Worker):
    run = booted_run(node("seed"), principal=principal(ada))
    ada.page.route("**/console/js/**", lambda route: route.abort())
    page = open_run(ada, run)

    page.get_by_role("tab", name="Graph").click()
    expect(page.get_by_role("tab", selected=True)).to_have_text("Graph")
    expect(page.locator("#pane-graph")).to_be_visible()
    expect(page.locator("#log")).to_be_hidden()
    ada.complaints.clear()  # about the scripts that this test withholds


def test_a_step_shows_only_its_own_lines_old_and_new(ada: Reader, worker: Worker):
    run, _first = long_run(ada, worker, 3_000)
    page = open_run(ada, run)

    page.locator(".step[data-step=noise] .step-head").click()
    expect(page.locator(".log-text", has_text="a needle")).to_be_visible()
    worker.log("seed", "other", seq=3000)
    worker.log("noise", "another needle", seq=1)

    expect(page.locator(".log-text", has_text="another needle")).to_be_visible()
    assert not [text for text in log_rows(page).values() if "line" in text or text == "other"]
    page.keyboard.press("Escape")
    expect(page.locator(".log-text", has_text="other").first).to_be_visible()


def test_a_server_that_comes_back_costs_no_line_and_doubles_none(
    ada: Reader, server: Server, worker: Worker
):
    run = booted_run(node("seed"), principal=principal(ada))
    worker.claim()
    worker.log("seed", "before")
    page = open_run(ada, run)
    expect(page.locator(".log-text", has_text="before")).to_be_visible()

    server.kill()
    expect(page.locator("#link-banner")).to_be_visible()
    worker.log("seed", "meanwhile 1", "meanwhile 2", seq=1)
    server.start()
    worker.log("seed", "after", seq=3)
    expect(page.locator(".log-text", has_text="after")).to_be_visible(timeout=30_000)

    expect(page.locator("#link-banner")).to_be_hidden()
    shown = [text for text in log_rows(page).values() if re.match("before|mean|after", text)]
    assert shown == ["before", "meanwhile 1", "meanwhile 2", "after"]
    ada.complaints = [one for one in ada.complaints if "ERR_" not in one]  # the outage itself


def test_a_run_is_canceled_after_a_question(ada: Reader, worker: Worker):
    run = three_steps(ada)
    worker.claim()
    page = open_run(ada, run)

    page.keyboard.press("x")
    dialog = page.get_by_role("dialog", name="Cancel this run?")
    dialog.get_by_label("Reason").fill("wrong profile")
    dialog.get_by_role("button", name="Cancel the run").click()

    expect(page.locator(".run-title .status-text")).to_have_text("Canceling")
    worker.end("seed", "canceled")
    sweep()
    expect(page.locator(".run-title .status-text")).to_have_text("Canceled")
    expect(page.locator("#run-head")).to_contain_text("wrong profile")


def test_the_keyboard_is_enough(ada: Reader, worker: Worker):
    page = open_run(ada, three_steps(ada))

    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keyboard")).to_be_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("k")
    page.keyboard.press("Enter")
    expect(page.locator(".step.is-selected .step-name")).to_have_text("seed")
    page.keyboard.press("f")
    follow = page.get_by_role("button", name="Follow", exact=True)
    expect(follow).to_have_attribute("aria-pressed", "false")
    page.keyboard.press("g")
    page.keyboard.press("r")

    expect(page).to_have_url(ada.url + "/")


def test_home_shows_runs_as_they_go(ada: Reader, worker: Worker):
    ada.open("/")
    page = ada.page
    expect(page.get_by_text("No runs yet")).to_be_visible()

    run = booted_run(node("seed"), principal=principal(ada))
    row = page.locator(f'.run-row[data-run="{run.id}"]')
    expect(row.locator(".status-text")).to_have_text("Booting")
    worker.claim()
    worker.end("seed")

    expect(row.locator(".status-text")).to_have_text("Healthy")
    expect(page.locator("[data-sum=healthyExecutions]")).to_have_text("1")
    row.get_by_role("link").click()
    expect(page.locator("h1")).to_have_text("Demo")


def test_the_suite_that_was_launched_last_comes_first(ada: Reader):
    ada.open("/")
    ada.page.evaluate("localStorage.setItem('partita.last-suite', 'shop')")
    ada.page.reload()

    ada.page.keyboard.press("l")

    suite = ada.page.get_by_role("dialog").get_by_role("combobox", name="Suite")
    expect(suite).to_have_value("shop")
    assert len(suite.locator("option").all()) > 1


def test_a_filtered_list_keeps_its_runs_and_says_what_began(ada: Reader, worker: Worker):
    booted_run(node("seed"), principal=principal(ada))
    ada.open("/?status=Queued%2CBooting%2CCanceling")
    page = ada.page
    rows = page.locator(".run-row")

    booted_run(node("later"), principal=principal(ada))
    expect(page.locator("#new-runs")).to_have_text("1 new run. Show")
    expect(rows).to_have_count(1)
    page.locator("#new-runs").click()
    expect(rows).to_have_count(2)

    page.get_by_label("Status").select_option("Failed")
    expect(page).to_have_url(ada.url + "/?status=Failed")
    expect(page.get_by_text("No run matches")).to_be_visible()
    page.go_back()
    expect(rows).to_have_count(2)
    expect(page.get_by_label("Status")).to_have_value("Queued,Booting,Canceling")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_no_page_is_wider_than_its_window(
    browser: Browser, server: Server, worker: Worker, scheme: str, width: int
):
    with reader(browser, server, color_scheme=scheme) as who:
        who.page.set_viewport_size({"width": width, "height": 844})
        who.sign_in()
        run = three_steps(who)
        for path in (
            "/",
            "/?status=Failed",
            "/suites",
            "/suites/composite",
            f"/executions/{run.id}",
        ):
            who.open(path)
            wide = "document.documentElement.scrollWidth > innerWidth"
            assert not who.page.evaluate(wide), path
        assert who.complaints == []


def test_the_chosen_colours_stay(ada: Reader):
    ada.open("/suites")
    for _press in range(2):
        ada.page.locator("[data-action=theme]").click()

    ada.page.reload()

    expect(ada.page.locator("html")).to_have_attribute("data-theme", "dark")


def test_lines_that_could_not_be_fetched_come_when_the_server_is_back(ada: Reader, worker: Worker):
    run, _first = long_run(ada, worker, 5_000)
    page = open_run(ada, run)
    expect(page.locator(".log-text", has_text="a needle")).to_be_visible()
    asked: list[str] = []

    def refuse(route: Route) -> None:
        asked.append(route.request.url)
        route.abort()

    page.route("**/logs?since=*", refuse)

    page.locator("#log").evaluate("log => { log.scrollTop = 0; }")
    expect(page.locator(".log-row[data-kind=loading]").first).to_be_visible()
    page.wait_for_timeout(1000)
    assert len(asked) == 1  # patient, not a storm
    page.unroute("**/logs?since=*")

    expect(page.locator(".log-text", has_text=re.compile("^line 3$"))).to_be_visible()
    expect(page.locator(".log-row[data-kind=loading]")).to_have_count(0)
    ada.complaints = [one for one in ada.complaints if "ERR_FAILED" not in one]


def test_the_page_of_the_api_has_the_colours_of_the_others(browser: Browser, server: Server):
    with reader(browser, server, color_scheme="dark") as who:
        who.sign_in()
        who.open("/api/v1/docs")
        expect(who.page.locator(".opblock").first).to_be_visible(timeout=30_000)
        assert brightest_surface(who.page) < 0.2

        who.page.evaluate("localStorage.setItem('partita-theme', 'light')")
        who.page.reload()
        expect(who.page.locator(".opblock").first).to_be_visible(timeout=30_000)
        assert brightest_surface(who.page) > 0.9

        who.page.evaluate("localStorage.setItem('partita-theme', 'dark')")
        who.page.emulate_media(color_scheme="light")
        who.page.reload()
        expect(who.page.locator(".opblock").first).to_be_visible(timeout=30_000)
        assert brightest_surface(who.page) < 0.2


def brightest_surface(page: Page) -> float:
    """Return 0 (black) to 1 (white): of the backgrounds of wide opaque elements."""
    brightest: float = page.evaluate("""() => Math.max(
        ...[...document.querySelectorAll("body, body *")]
        .filter((each) => each.getBoundingClientRect().width >= innerWidth * 0.9)
        .map((each) => getComputedStyle(each).backgroundColor.match(/[\\d.]+/g).map(Number))
        .filter(([, , , opaque = 1]) => opaque === 1)
        .map(([red, green, blue]) => (red + green + blue) / 765))""")
    return brightest
