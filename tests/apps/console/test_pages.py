from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from apps.accounts import selectors as accounts_memory
from apps.accounts.models import Membership
from tests.apps.console import wire_samples
from tests.apps.console.conftest import FakeExecutions, FakeSuites

RUN = f"/executions/{wire_samples.RUN_ID}"
PAGES = ["/", "/suites", "/suites/shop", RUN, f"{RUN}/panels"]
EVIL = '<script>alert("x")</script>'
HTML = {"Accept": "text/html"}


@pytest.mark.parametrize("path", PAGES)
def test_every_page_is_there_for_a_signed_in_reader(reader: Client, path: str):
    answer = reader.get(path)

    assert answer.status_code == 200
    assert answer["Content-Type"].startswith("text/html")


@pytest.mark.django_db
@pytest.mark.parametrize("path", [*PAGES, "/environments"])
def test_a_stranger_is_sent_to_sign_in_and_back(client: Client, path: str):
    answer = client.get(path + "?file=a")

    assert answer.status_code == 302
    assert answer["Location"] == "/sign-in?next=" + path.replace("/", "%2F") + "%3Ffile%3Da"


@pytest.mark.django_db
def test_a_fragment_for_a_stranger_moves_the_whole_page(client: Client):
    answer = client.get(f"{RUN}/panels", headers={"HX-Request": "true"})

    assert (answer.status_code, answer["HX-Redirect"]) == (401, "/sign-in")


@pytest.mark.parametrize(
    "path", [*PAGES, "/sign-in", "/sign-up", "/catalog", "/environments", "/executions/run-0"]
)
def test_no_page_has_inline_script_or_style(reader: Client, path: str):
    answer = reader.get(path)
    page = answer.content.decode()

    assert "'unsafe-inline'" not in answer["Content-Security-Policy"]
    assert not re.findall(r"<script(?![^>]*(src=|application/json))", page)
    assert not re.findall(r"<style|\sstyle=|\son[a-z]+=|javascript:", page)


def test_text_of_others_is_never_markup(
    reader: Client, executions: FakeExecutions, suites: FakeSuites
):
    node = wire_samples.node(EVIL, 0, image=EVIL)
    case = {"name": EVIL, "classname": EVIL, "message": EVIL}
    evil_step = {
        **wire_samples.VERDICT["steps"][0],
        "stepId": EVIL,
        "sentence": f"{EVIL} {EVIL}",
        "causes": [EVIL],
        "cases": [case],
        "lines": [{"number": 1, "text": EVIL}],
    }
    executions.run = wire_samples.detail(
        suiteTitle=EVIL,
        profile=EVIL,
        backend=EVIL,
        author=EVIL,
        verdict={**wire_samples.VERDICT, "sentence": EVIL, "steps": [evil_step]},
        reason="internal_error",
        suite={"topology": [node]},
        steps=[node | {"status": "failed", "attempt": 1, "waitingOn": [], "detail": EVIL}],
    )
    executions.suites = [wire_samples.launch_suites()[0] | {"title": EVIL}]
    suites.definitions = [
        wire_samples.definition(
            id="shop", title=EVIL, description=EVIL, suiteStar=EVIL, topology=[node]
        )
    ]

    for path in PAGES:
        page = reader.get(path).content.decode()
        assert EVIL not in page
        assert "<script>alert" not in page


def test_a_broken_suite_shows_its_error_at_its_place(reader: Client, suites: FakeSuites):
    suites.definitions = [wire_samples.broken_definition()]

    page = reader.get("/suites/shop").content.decode()

    assert 'href="?file=suite.star#source-5"' in page
    fault = page.split('<tr id="source-5" class="at-fault">')[1].split("</tr>")[0]
    assert "<mark>i</mark>mge=" in fault
    assert "This suite cannot run." in page
    assert 'id="topology-title"' not in page


def test_a_suite_shows_its_recent_runs(reader: Client, suites: FakeSuites):
    suites.definitions = [
        wire_samples.definition(id="hello", title="Hello"),
        wire_samples.definition(id="new", title="New"),
    ]

    page = reader.get("/suites/hello").content.decode()

    assert re.findall(r'<tr data-run="([^"]+)"', page) == ["run-aaaa00001111"]
    assert 'href="/executions/run-aaaa00001111"' in page
    assert "No runs to show." in reader.get("/suites/new").content.decode()


def test_a_suite_shows_what_it_imports(reader: Client, suites: FakeSuites):
    imported = {
        "alias": "pay",
        "ref": "payments",
        "resolved": "payments",
        "profile": "ci.yaml",
        "inputs": {"REGION": EVIL},
        "suiteId": "payments",
        "suiteTitle": EVIL,
        "repository": "workspace/payments",
        "locked": False,
    }
    assert "Imported suites" not in reader.get("/suites/shop").content.decode()
    suites.definitions = [wire_samples.definition(resolvedDependencies=[imported])]

    page = reader.get("/suites/shop").content.decode()
    assert 'href="/suites/payments"' in page
    assert "not locked" in page
    assert "partita suite lock shop" in page
    assert EVIL not in page


def test_another_file_of_a_suite_can_be_read(reader: Client):
    page = reader.get("/suites/shop?file=tasks/migrate.sh").content.decode()

    assert "echo hi" in page
    assert "echo hi" not in reader.get("/suites/shop?file=../../etc/passwd").content.decode()


def test_a_suite_without_readable_files_has_a_page_too(reader: Client, suites: FakeSuites):
    suites.definitions = [wire_samples.definition(sourceFiles=[], topology=[], status="Invalid")]

    assert reader.get("/suites/shop").status_code == 200


def test_a_run_shows_steps_reasons_and_causes(reader: Client):
    page = reader.get(RUN).content.decode()

    assert "Running, failing" in page
    assert "exited with code 3, expected 0" in page
    assert 'data-go-to-step="checkout"' in page
    assert "exit_nonzero" not in page
    assert 'data-first-failure="checkout"' in page
    assert "junit.xml" in page


def test_a_run_without_tests_and_reports_offers_no_junit(
    reader: Client, executions: FakeExecutions
):
    steps = [step | {"kind": "task"} for step in wire_samples.detail()["steps"]]
    executions.run = wire_samples.detail(steps=steps, artifacts=[])

    assert "/junit" not in reader.get(RUN).content.decode()


def test_a_missing_artifact_is_a_warning_with_the_step_and_the_path(
    reader: Client, executions: FakeExecutions
):
    missing = [{"path": "report.xml", "hint": f"look at {EVIL}"}]
    steps = [
        step | ({"missingArtifacts": missing} if step["id"] == "search" else {})
        for step in wire_samples.detail()["steps"]
    ]
    executions.run = wire_samples.detail(steps=steps)

    page = reader.get(RUN).content.decode()

    assert "A declared artifact is missing:" in page
    assert 'data-go-to-step="search">search</button>' in page
    assert "left no file <code>report.xml</code>: look at" in page
    assert EVIL not in page


def test_a_run_begins_with_its_verdict(reader: Client):
    page = reader.get(RUN).content.decode()
    verdict = " ".join(page.split('id="verdict"')[1].split('class="scale"')[0].split())

    assert "</button> exited with code 3, expected 0" in verdict
    assert "store exited with code 137" in verdict
    assert "<strong>pays</strong>" in verdict
    assert "expected 3 items, got 2" in verdict
    assert "and 2 more" in verdict
    assert '<a class="log-no" href="#L41"' in verdict
    assert "AssertionError: 3 != 2" in verdict


def test_every_failed_step_is_in_sight_without_a_click(reader: Client, executions: FakeExecutions):
    first = wire_samples.VERDICT["steps"][0]
    quiet = {"causes": [], "cases": [], "moreCases": 0, "lines": [], "wroteNothing": True}
    steps = [first] + [
        {**first, **quiet, "stepId": f"s{n}", "sentence": f"s{n} exited with code 1"}
        for n in range(4)
    ]
    executions.run["verdict"] = {**wire_samples.VERDICT, "steps": steps, "moreSteps": 12}

    page = reader.get(RUN).content.decode()

    failures = page.split('id="verdict"')[1].split('class="facts"')[0]
    assert failures.count("data-failure=") == 5
    assert failures.count("The step wrote nothing.") == 4
    assert "and 12 more failed steps" in failures
    assert "<details" not in failures


def test_a_canceled_run_says_by_whom_when_and_why(reader: Client, executions: FakeExecutions):
    canceled = {
        "by": "Finn (finn@example.org)", "at": wire_samples.STARTED, "reason": "wrong branch",
    }  # fmt: skip
    executions.run = wire_samples.detail(
        status="Canceled", failing=False,
        verdict={**wire_samples.VERDICT, "steps": [], "canceled": canceled},
    )  # fmt: skip

    page = " ".join(reader.get(RUN).content.decode().split())

    assert "Canceled by Finn (finn@example.org) at <time" in page
    assert "</time>: wrong branch" in page


def test_lists_of_runs_have_sentences(reader: Client):
    home = reader.get("/").content.decode()
    suite = reader.get("/suites/shop").content.decode()

    for page in (home, suite):
        assert "checkout exited with code 3, expected 0" in page


@pytest.mark.parametrize("path", ["/", "/suites", "/suites/shop"])
def test_who_may_not_launch_is_offered_no_launch(reader: Client, path: str):
    assert "launch.js" in reader.get(path).content.decode()

    Membership.objects.update(role="viewer")
    accounts_memory._cache.clear()
    page = reader.get(path).content.decode()
    assert "launch.js" not in page
    assert 'data-action="launch"' not in page


def test_a_queued_run_shows_its_place_and_its_plan(reader: Client, executions: FakeExecutions):
    steps = [step | {"status": "pending", "attempt": 0} for step in wire_samples.detail()["steps"]]
    executions.run = wire_samples.detail(
        status="Queued", failing=False, queuePosition=3, steps=steps, artifacts=[]
    )

    page = reader.get(RUN).content.decode()

    assert "number 3 in the queue" in page
    assert page.count('class="node"') == len(steps)


def test_a_run_shows_what_a_step_uses(reader: Client, executions: FakeExecutions):
    page = reader.get(f"{RUN}/panels").content.decode()
    assert "12 % CPU · 34.0 MiB (peak 40.0 MiB)" in page
    assert page.count("<dt>Usage</dt>") == 1

    executions.run["steps"][0]["usage"] = {"cpuPercent": 3.0}
    assert "3 % CPU</dd>" in reader.get(f"{RUN}/panels").content.decode()


def test_steps_that_are_not_isolated_are_marked(reader: Client, executions: FakeExecutions):
    assert "not isolated" not in reader.get(RUN).content.decode()

    executions.run = wire_samples.detail(backend="Local processes (not isolated)")

    assert "process — not isolated" in reader.get(RUN).content.decode()


def test_the_list_of_runs_marks_what_was_not_isolated(reader: Client):
    page = reader.get("/").content.decode()

    rows = re.findall(r'data-run="(run-\w+)".*?data-isolated="(\w+)"', page, re.DOTALL)
    marked = [run for run, isolated in rows if isolated == "false"]
    assert marked == ["run-aaaa00001111"]


def test_an_ended_run_offers_no_cancel(reader: Client, executions: FakeExecutions):
    executions.run = wire_samples.detail(status="Healthy", failing=False)

    page = reader.get(RUN).content.decode()

    assert re.search(r'data-action="cancel" hidden', page)
    assert 'data-over="true"' in page


def test_reports_with_failures_come_first_then_by_step(reader: Client, executions: FakeExecutions):
    figures = {"passed": 1, "skipped": 0, "errors": 0, "total": 2}
    executions.run = wire_samples.detail(
        artifacts=[
            wire_samples.ARTIFACT
            | {"stepName": f"test-{number}", "testSummary": figures | {"failures": number // 10}}
            for number in (2, 10, 1, 9)
        ]
    )

    page = reader.get(RUN).content.decode()

    rows = re.findall(r"<tr data-report>.*?<td>(.*?)</td>", page, re.DOTALL)
    assert rows == ["test-10", "test-1", "test-2", "test-9"]


def test_the_question_before_a_cancel_has_its_focus_on_what_is_safe(reader: Client):
    page = reader.get(RUN).content.decode()

    assert re.search(r"<button[^>]* autofocus>Keep it running</button>", page)
    assert "Canceling stops all steps and removes their containers." in page


@pytest.mark.parametrize(
    ("query", "tab"), [("", "why"), ("?tab=events", "events"), ("?tab=nope", "why")]
)
def test_a_tab_that_the_address_names_is_rendered_as_the_chosen_one(
    reader: Client, executions: FakeExecutions, query: str, tab: str
):
    executions.run = wire_samples.detail(status="Healthy", failing=False)

    page = reader.get(RUN + query).content.decode()

    assert re.findall(r'id="tab-(\w+)"[^>]*aria-selected="true"', page) == [tab]


def test_a_run_of_too_many_steps_is_listed_but_not_drawn(
    reader: Client, executions: FakeExecutions
):
    nodes = [wire_samples.node(f"n{number}", 0) for number in range(501)]
    executions.run = wire_samples.detail(
        steps=[node | {"status": "pending", "attempt": 0, "waitingOn": []} for node in nodes]
    )

    page = reader.get(RUN).content.decode()

    assert 'class="graph"' not in page
    assert page.count('class="step"') == 501


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("/executions/run-000000000000", 404, "execution_not_found"),
        ("/suites/nope", 404, "suite_not_found"),
        ("/nowhere", 404, "not_found"),
    ],
)
def test_an_error_is_a_page_with_its_request_id(reader: Client, path: str, status: int, code: str):
    answer = reader.get(path, headers=HTML)

    assert answer.status_code == status
    assert code in answer.content.decode()
    assert f"<code>{answer['X-Request-Id']}</code>" in answer.content.decode()


def test_a_fault_is_a_page_without_its_cause(reader: Client, executions: FakeExecutions):
    reader.raise_request_exception = False
    executions.run = {"id": wire_samples.RUN_ID, "secret": "hunter2"}

    answer = reader.get(RUN, headers=HTML)

    assert answer.status_code == 500
    assert "Something went wrong on the server" in answer.content.decode()
    assert "KeyError" not in answer.content.decode()


@pytest.mark.django_db
def test_only_readers_of_pages_get_error_pages(client: Client):
    assert client.get("/nowhere", headers={"Accept": "*/*"})["Content-Type"].startswith(
        "application/problem+json"
    )
    assert client.get("/api/v1/nowhere", headers=HTML)["Content-Type"].startswith(
        "application/problem+json"
    )


@pytest.mark.django_db
def test_sign_in_goes_on_to_a_path_of_this_site_only(reader: Client):
    facts = {"email": "ada@example.org", "password": "Str0ngEnough"}

    to_suites = Client().post("/sign-in", facts | {"next": "/suites"})
    to_evil = Client().post("/sign-in", facts | {"next": "//evil.example/"})

    assert (to_suites.status_code, to_suites["Location"]) == (302, "/suites")
    assert to_evil["Location"] == "/"


def test_a_refused_sign_in_keeps_the_mail_but_not_the_password(reader: Client):
    answer = Client().post("/sign-in", {"email": "ada@example.org", "password": "Wr0ngOne!"})

    page = answer.content.decode()
    assert answer.status_code == 401
    assert 'value="ada@example.org"' in page
    assert "Wr0ngOne!" not in page


@pytest.mark.django_db
def test_a_weak_password_is_explained(client: Client):
    answer = client.post("/sign-up", {"fullName": "A", "email": "a@b.c", "password": "weak"})

    assert answer.status_code == 400
    assert "Please correct these fields" in answer.content.decode()


def test_signing_out_ends_the_session(reader: Client):
    assert reader.post("/sign-out").status_code == 302

    assert reader.get("/")["Location"].startswith("/sign-in")


@pytest.mark.django_db
@pytest.mark.parametrize("path", ["/sign-in", "/sign-up", "/sign-out"])
def test_forms_without_their_token_are_refused(path: str):
    answer = Client(enforce_csrf_checks=True).post(path, {}, headers=HTML)

    assert answer.status_code == 403
    assert "csrf_failed" in answer.content.decode()


@pytest.mark.django_db
def test_switched_off_ways_in_are_not_offered(client: Client, settings):
    settings.AUTH_SIGNUP_ENABLED = settings.AUTH_PASSWORD_LOGIN_ENABLED = False

    assert "password" not in client.get("/sign-in").content.decode().replace("with a password", "")
    closed = client.get("/sign-up").content.decode()
    assert "Sign-up is closed here." in closed
    assert '<form method="post" action="/sign-up" class="stack" hidden>' in closed


@pytest.mark.parametrize("path", ["/nowhere", "/executions/run-0", "/suites/none", "/catalog/none"])
def test_what_is_not_there_is_said_in_whole_sentences(reader: Client, path: str):
    page = reader.get(path, headers=HTML).content.decode()
    headline = re.search(r'<h1 id="headline">(.*?)</h1>\s*<p>\s*(.*?)</p>', page, re.DOTALL)
    title = re.search(r"<title>(.*?) · Partita</title>", page)

    assert headline
    assert title
    assert title[1] == headline[1] == headline[1][0].upper() + headline[1][1:]
    assert headline[2][0].isupper()
    assert headline[2].strip().endswith(".")


def test_a_row_says_who_launched_it_and_the_backend_only_where_there_are_several(
    reader: Client, executions: FakeExecutions
):
    executions.runs = [wire_samples.overview_item(author="Ada", trigger="CI")]
    page = reader.get("/").content.decode()
    assert '<span class="run-by" data-slot="by">Ada · CI</span>' in page
    assert " data-one-backend" in page

    executions.runs += [wire_samples.overview_item(id="run-eeee00001111", backend="Edge")]
    assert " data-one-backend" not in reader.get("/").content.decode()


def test_the_menu_links_to_the_documentation_only_where_it_was_built(
    reader: Client, settings: Any, tmp_path: Path
):
    settings.DOCUMENTATION_DIR = tmp_path
    assert 'href="/docs/"' not in reader.get("/").content.decode()

    (tmp_path / "index.html").write_text("<h1>Home</h1>")
    assert 'href="/docs/"' in reader.get("/").content.decode()
