"""What the page of a run shows of its attempts, of the last green run, and of running it again."""

from __future__ import annotations

import re

import pytest
from django.test import Client

from apps.accounts import selectors as accounts_memory
from apps.accounts.models import Membership
from apps.console.domain import display
from tests.apps.console import wire_samples
from tests.apps.console.conftest import FakeExecutions
from tests.apps.console.wire_samples import RUN_ID, attempt

RUN = f"/executions/{RUN_ID}"
OTHER = "run-bbbb00001111"


def text_of(page: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", page).split())


def test_attempts_stand_in_a_row_with_links_and_gaps(reader: Client, executions: FakeExecutions):
    executions.run = wire_samples.detail(
        attempts=[
            {"number": 1, "through": 2, "gap": "deleted"},
            attempt(3, OTHER),
            attempt(4, RUN_ID, "Healthy"),
        ]
    )

    page = reader.get(RUN).content.decode()

    row = page.split('<ol class="attempts"')[1].split("</ol>")[0]
    assert text_of(row.partition(">")[2]) == "1–2 deleted 3 failed 4 healthy"
    assert f'href="/executions/{OTHER}"' in row
    assert f'href="{RUN}"' not in row
    assert '<strong aria-current="page">4 healthy</strong>' in row


def test_a_run_without_reruns_has_no_row(reader: Client):
    assert 'class="attempts"' not in reader.get(RUN).content.decode()


@pytest.mark.parametrize("path", [RUN, f"{RUN}/panels"])
def test_the_table_since_the_green_run_names_variables_without_values(
    reader: Client, executions: FakeExecutions, path: str
):
    executions.run = wire_samples.detail(status="Failed")
    executions.green = {
        "green": {"id": OTHER, "startedAt": wire_samples.STARTED, "profile": "ci.yaml"},
        "sentence": f"2 differences since {OTHER}, the last Healthy run before this one.",
        "differences": [
            {"kind": "env", "name": "TOKEN", "change": "changed", "where": "profile"},
            {
                "kind": "duration", "name": "seed", "change": "changed",
                "beforeMs": 900, "afterMs": 4200,
            },
        ],
        "moreDifferences": 0,
    }  # fmt: skip

    page = reader.get(path).content.decode()

    part = text_of(page.split('<details class="since-green"')[1].split("</details>")[0])
    assert "Since the last green run: 2 differences" in part
    assert "env TOKEN (profile) set another value duration of seed 0.9 s 4.2 s" in part
    assert f'href="/executions/{OTHER}"' in page


def test_without_a_green_run_the_page_says_so(reader: Client, executions: FakeExecutions):
    executions.run = wire_samples.detail(status="Failed")

    page = text_of(reader.get(RUN).content.decode())

    assert "Since the last green run: there was none No run of this suite was Healthy" in page


def test_a_healthy_run_has_no_such_table(reader: Client, executions: FakeExecutions):
    executions.run = wire_samples.detail(status="Healthy")

    assert "since-green" not in reader.get(RUN).content.decode()


@pytest.mark.parametrize(("role", "is_offered"), [("runner", True), ("viewer", False)])
def test_running_again_is_offered_to_those_who_may(reader: Client, role: str, is_offered: bool):
    Membership.objects.update(role=role)
    accounts_memory._cache.clear()

    page = reader.get(RUN).content.decode()

    for part in ('data-action="rerun"', 'id="rerun"', "console/js/rerun"):
        assert (part in page) is is_offered


def test_the_dialog_offers_the_steps_and_the_other_profiles(
    reader: Client, executions: FakeExecutions
):
    profiles = [
        {"fileName": name, "label": name[:2].upper(), "description": "", "default": False}
        for name in ("ci.yaml", "us.yaml")
    ]
    suite = {**wire_samples.detail()["suite"], "profiles": profiles}
    executions.run = wire_samples.detail(profile="ci.yaml", suite=suite)

    dialog = reader.get(RUN).content.decode().split('<dialog id="rerun"')[1]

    assert "as it was: ci.yaml" in dialog
    assert '<option value="us.yaml">US (us.yaml)</option>' in dialog
    assert '<option value="ci.yaml">' not in dialog
    for step in executions.run["steps"]:
        assert f'<option value="{step["id"]}">' in dialog


def test_a_row_says_which_attempt_a_run_is():
    assert display.trigger_text({"trigger": "Rerun", "attempt": 3}) == "attempt 3"
    assert display.trigger_text({"trigger": "CI"}) == "CI"
