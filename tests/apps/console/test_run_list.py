"""The list of runs: what its filters show, its pages, and the gauges that lead to it."""

from __future__ import annotations

import html
import re
from dataclasses import replace
from datetime import timedelta
from urllib.parse import urlencode

import pytest
from django.test import Client

from apps.accounts.api import Principal
from apps.accounts.models import User
from apps.console import run_list
from apps.executions.models import Execution
from kernel import clock
from tests.apps.executions.runs import booted_run, node, queued_run
from tests.support.people import somebody

pytestmark = pytest.mark.django_db


@pytest.fixture
def browser(settings, tmp_path, monkeypatch) -> Client:
    monkeypatch.setattr("apps.executions.selectors.overview._overview_cache", None)
    settings.SUITES_DIR = tmp_path
    settings.EXECUTION_MAX_ACTIVE = 100
    client = Client()
    client.post(
        "/sign-up",
        {"fullName": "Ada Lovelace", "email": "ada@example.org", "password": "Str0ngEnough"},
    )
    return client


@pytest.fixture
def ada(browser: Client) -> Principal:
    user = User.objects.get(email="ada@example.org")
    return replace(somebody(workspace_id=user.workspace_id), user_id=user.id)


def run(principal: Principal, **facts: object) -> str:
    """The id of a run whose row has these facts."""
    made = queued_run(node("a"), principal=principal)
    Execution.objects.filter(run_id=made.id).update(**facts)
    return made.id


def shown(browser: Client, address: str = "/", **parameters: str) -> list[str]:
    answer = browser.get(f"{address}?{urlencode(parameters)}" if parameters else address)
    assert answer.status_code == 200, answer.content
    return re.findall(r'data-run="(run-\w+)"', answer.content.decode())


def ended(status: str, *, ago: timedelta) -> dict[str, object]:
    then = clock.now() - ago
    return {"status": status, "finished_at": then, "started_at": then - timedelta(minutes=5)}


def test_each_filter_narrows_the_list(browser: Client, ada: Principal):
    first = run(ada, suite_id="shop", profile="ci.yaml", author="Grace Hopper")
    second = run(ada, branch="feature/cobol")
    third = run(ada, **ended("Failed", ago=timedelta(days=2)))

    assert shown(browser) == [second, first, third]
    assert shown(browser, suite="shop") == [first]
    assert shown(browser, profile="ci.yaml") == [first]
    assert shown(browser, author="hopper") == [first]
    assert shown(browser, q="COBOL") == [second]
    assert shown(browser, status="Failed") == [third]
    assert shown(browser, status="Queued,Booting,Canceling") == [second, first]
    assert shown(browser, time="24h") == [second, first]
    assert shown(browser, time="7d", status="Failed") == [third]
    assert shown(browser, status="Healthy") == []


def test_runs_of_other_workspaces_are_on_no_page(browser: Client, ada: Principal):
    run(somebody())

    assert shown(browser) == shown(browser, q="run-") == []


def test_all_kept_runs_are_on_some_page_and_each_once(browser: Client, ada: Principal, monkeypatch):
    monkeypatch.setattr(run_list, "RUNS_A_PAGE", 2)
    same = ended("Healthy", ago=timedelta(days=40))
    runs = [run(ada, **same) for _ in range(5)]  # accepted in the same millisecond

    seen, address = [], "/?status=Healthy"
    while address:
        page = browser.get(address).content.decode()
        seen += re.findall(r'data-run="(run-\w+)"', page)
        older = re.findall(r'href="([^"]+)" rel="next"', page)
        address = html.unescape(older[0]) if older else ""
        assert not address or "status=Healthy" in address

    assert sorted(seen) == sorted(runs)


def test_a_page_stays_when_the_run_before_it_is_deleted(
    browser: Client, ada: Principal, monkeypatch
):
    monkeypatch.setattr(run_list, "RUNS_A_PAGE", 1)
    older, newer = (run(ada, **ended("Healthy", ago=timedelta(days=n))) for n in (2, 1))
    (link,) = re.findall(r'href="([^"]+)" rel="next"', browser.get("/").content.decode())
    Execution.objects.filter(run_id=newer).update(deleted_at=clock.now())

    assert shown(browser, html.unescape(link)) == [older]


def test_a_gauge_leads_to_as_many_runs_as_it_says(browser: Client, ada: Principal):
    run(ada)
    booted_run(node("a"), principal=ada)
    run(ada, status="Canceling")
    run(ada, **ended("Failed", ago=timedelta(hours=2)))
    run(ada, **ended("Failed", ago=timedelta(hours=25)))
    run(
        ada,
        **(
            ended("Healthy", ago=timedelta(hours=23))
            | {"started_at": clock.now() - timedelta(days=2)}
        ),
    )

    page = browser.get("/").content.decode()
    gauges = re.findall(
        r'<a href="([^"]+)">\s*<span class="gauge-name">.*?>(\d+)</span>', page, re.DOTALL
    )

    assert len(gauges) == 5
    counts = [int(count) for _, count in gauges]
    assert counts == [len(shown(browser, html.unescape(link))) for link, _ in gauges]
    assert counts[2:] == [1, 1, 0]


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"status": "Nope"}, "status: &#x27;Nope&#x27; is none of"),
        ({"time": "yesterday"}, "time: "),
        ({"q": "x" * 201}, "q: at most 200"),
        ({"author": "a\x00b"}, "author: "),
        ({"before": "x"}, "before: this page"),
        ({"before": "99999999999999-" + "0" * 32}, ""),
    ],
)
def test_what_is_no_filter_is_said(browser: Client, parameters: dict[str, str], said: str):
    answer = browser.get("/", parameters)

    assert answer.status_code == (400 if said else 200)
    assert said in answer.content.decode()


def test_no_match_says_how_to_go_on(browser: Client):
    page = browser.get("/?q=nothing").content.decode()

    assert "No run matches" in page
    assert "No runs yet" not in page
    assert "No runs yet" in browser.get("/").content.decode()
