"""The page of all suites: how each went lately, search, order, and who may launch."""

from __future__ import annotations

import re

import pytest
from django.test import Client

from apps.accounts import selectors as accounts_memory
from apps.accounts.models import Membership
from tests.apps.console import wire_samples
from tests.apps.console.conftest import FakeExecutions, FakeSuites


@pytest.fixture
def three(suites: FakeSuites) -> FakeSuites:
    suites.definitions = [
        wire_samples.definition(
            id="billing", title="Billing", owner="Money team", tags=["nightly"]
        ),
        wire_samples.definition(id="hello", title="Hello"),
        wire_samples.definition(id="shop", title="Shop"),
    ]
    return suites


def suites_of(page: str) -> list[str]:
    return re.findall(r'data-suite-row="([^"]+)"', page)


def row_of(page: str, suite_id: str) -> str:
    return page.split(f'data-suite-row="{suite_id}"')[1].split("</li>\n<li class=", maxsplit=1)[0]


def test_a_suite_shows_its_last_results_and_its_last_failure(
    reader: Client, three: FakeSuites, executions: FakeExecutions
):
    failed = wire_samples.summary(id="run-dddd00001111", status="Failed", suiteId="hello")
    executions.runs = [failed, *executions.runs]

    page = reader.get("/suites").content.decode()

    row = row_of(page, "hello")
    assert row.count('class="status"') == 2
    assert f'data-status="failed" href="/executions/{failed["id"]}"' in row
    assert f'<a href="/executions/{failed["id"]}">{failed["sentence"]}</a>' in row
    assert "Last failure" in row
    assert "No run yet" in row_of(page, "billing")
    assert "Money team" in row_of(page, "billing")


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("?q=money", ["billing"]),
        ("?q=NIGHTLY+bill", ["billing"]),
        ("?q=nowhere", []),
        ("?sort=failed", ["shop", "billing", "hello"]),
        ("?sort=recent", ["shop", "hello", "billing"]),
        ("", ["billing", "hello", "shop"]),
    ],
)
def test_search_and_order_are_in_the_address(
    reader: Client, three: FakeSuites, executions: FakeExecutions, query: str, found: list[str]
):
    late = {"status": "Failed", "startedAt": "2026-01-03T03:04:05.123Z"}
    executions.runs = [wire_samples.summary(suiteId="shop", **late), *executions.runs]
    page = reader.get(f"/suites{query}").content.decode()

    assert suites_of(page) == found
    assert ("No suite matches" in page) == (not found)


@pytest.mark.parametrize("query", ["?sort=size", "?q=" + "x" * 201, "?q=%00"])
def test_a_parameter_that_means_nothing_is_refused(reader: Client, three: FakeSuites, query: str):
    assert reader.get(f"/suites{query}").status_code == 400


def test_runners_launch_from_the_list_and_viewers_do_not(reader: Client, three: FakeSuites):
    button = 'data-action="launch" data-suite="shop"'
    assert button in reader.get("/suites").content.decode()

    Membership.objects.update(role="viewer")
    accounts_memory._cache.clear()
    page = reader.get("/suites").content.decode()
    assert button not in page
    assert 'id="launch"' not in page
