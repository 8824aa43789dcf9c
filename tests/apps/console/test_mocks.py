"""Mocks on the pages of suites and runs."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from django.template.loader import render_to_string
from django.test import Client

from apps.accounts.models import Membership, User
from apps.console import mocks
from apps.console.domain import mock_display
from apps.executions.selectors.artifacts import FailedCase
from apps.mocks import components
from apps.mocks.selectors import SharedSpaces
from kernel.errors import NotFound
from mocks.model.calls import CallOutcome
from mocks.model.spaces import SpaceName
from tests.apps.mocks_rest.conftest import SHOP
from tests.apps.suites.conftest import Workspace, library, workspace  # noqa: F401 - fixtures
from tests.support.served_mocks import Contents, MemoryParts

EXPLAIN = "/suites/shop/surfaces/shop/operations/createOrder/explain"
RUN = "run-0123456789ab"
SPACE = SpaceName("shop", RUN)


@pytest.fixture
def served(
    monkeypatch: pytest.MonkeyPatch,
    workspace: Workspace,  # noqa: F811
    db: None,
) -> Iterator[MemoryParts]:
    shutil.copytree(SHOP, workspace.root / "shop")
    content = SharedSpaces().load(SpaceName("shop"))
    assert content is not None
    made = MemoryParts(Contents(content))
    monkeypatch.setattr(components, "mock_parts", lambda: made)
    yield made
    made.spaces.stop()


@pytest.fixture
def reader(served: MemoryParts) -> Client:
    """A browser whose reader is signed in, and is an administrator of the workspace only."""
    client = Client()
    form = {"fullName": "Ada", "email": "ada@example.org", "password": "Str0ngEnough"}
    client.post("/sign-up", form)
    User.objects.update(is_admin=False)
    return client


@pytest.fixture
def admin(reader: Client) -> Client:
    User.objects.update(is_admin=True)
    return reader


def served_by(*spaces: tuple[str, SpaceName, tuple[str, ...]]) -> Any:
    def mock_spaces(_principal: object, run_id: str) -> Any:
        if run_id != RUN:
            raise NotFound("execution not found", code="execution_not_found")
        return spaces

    return SimpleNamespace(mock_spaces=mock_spaces)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(mocks, "executions", served_by(("psp", SPACE, ("shop", "payments"))))
    return f"/executions/{RUN}/mocks"


def text(answer: Any, status: int = 200) -> str:
    assert answer.status_code == status, answer.content
    return " ".join(answer.content.decode().split())


def test_the_form_of_an_operation_stands_in_its_fragment(reader: Client):
    page = text(reader.get("/suites/shop/surfaces/shop/operations/createOrder"))

    assert 'data-address="/mocks/rest/shop/shop/orders"' in page
    assert f'data-explain="{EXPLAIN}"' in page
    assert "&quot;yacht&quot;" in page, "the samples"


def test_an_explanation_names_each_condition_and_the_choice(reader: Client):
    call = {"method": "POST", "path": "/orders", "headers": "X-A: 1", "body": '{"yacht": 1}'}

    page = text(reader.post(EXPLAIN, call))

    assert "Answered by example <strong>refused</strong>" in page
    assert "body <code>yacht</code> must be <code>1</code>" in page
    assert "Only the defaults of the state are seen" in page
    other = text(reader.post(EXPLAIN, call | {"body": '{"yacht": 2}'}))
    assert "it is <code>2</code>" in other
    assert "Then the record <code>orders</code> becomes placed=1." in other


def test_a_refused_call_says_which_constraint_fails(reader: Client):
    path = "/suites/shop/surfaces/shop/operations/listGoods/explain"

    page = text(reader.post(path, {"method": "GET", "path": "/goods?q=UP&q=ignored"}))

    assert "Refused, parameter constraints fail: <span" in page
    assert "query <code>q</code> is <code>UP</code>" in page


def test_what_cannot_be_explained_is_said_in_its_place(reader: Client):
    page = text(reader.post(EXPLAIN, {"method": "POST", "path": "/nowhere"}))

    assert "Not explained: POST /nowhere does not lead to createOrder" in page
    crowd = "\n".join(f"a{n}: 1" for n in range(101))
    assert "at most 100 headers" in text(reader.post(EXPLAIN, {"headers": crowd}), status=400)


def test_the_shared_space_is_for_administrators(reader: Client, served: MemoryParts):
    served.note(SpaceName("shop"))

    assert "Only administrators see its calls" in text(reader.get("/suites/shop"))
    assert reader.get("/suites/shop/mocks").status_code == 403
    assert reader.post("/suites/shop/mocks/reset", {"what": "calls"}).status_code == 403
    assert len(served.journal.newest("shop")) == 1


def test_administrators_see_and_empty_the_shared_space(admin: Client, served: MemoryParts):
    served.call(SpaceName("shop"), "shop", "POST", "/orders")

    page = text(admin.get("/suites/shop/mocks"))
    assert "placed=1" in page
    assert "createOrder" in page
    assert "data-mock-space" in text(admin.get("/suites/shop"))
    emptied = text(admin.post("/suites/shop/mocks/reset", {"what": "record", "key": "orders"}))
    assert "No record yet" in emptied
    assert "createOrder" in emptied
    gone = text(admin.post("/suites/shop/mocks/reset", {"what": "calls"}))
    assert "Nothing has called these mocks lately" in gone
    admin.post("/suites/shop/mocks/reset", {"what": "state"})
    assert admin.post("/suites/shop/mocks/reset", {"what": "all"}).status_code == 400


def test_calls_of_a_run_are_filtered_and_hostile_texts_are_text(
    reader: Client, served: MemoryParts, run: str
):
    served.note(SPACE, path="/<script>", request_headers={"items": "<b>"}, step_id="<i>")
    served.note(SPACE, outcome=CallOutcome.FALLBACK, surface_id="payments", path="/other")

    page = text(reader.get(run))
    assert "/&lt;script&gt;" in page
    assert "items: &lt;b&gt;" in page
    assert "<script>" not in page
    assert "<i>" not in page
    assert "/other" not in text(reader.get(f"{run}?outcome=example"))
    assert "/other" in text(reader.get(f"{run}?surface=payments"))
    assert "No call matches the filter" in text(reader.get(f"{run}?outcome=error"))


def test_unmatched_calls_stand_first_with_what_came_nearest(
    reader: Client, served: MemoryParts, run: str
):
    condition = {"from": "body", "param": "yacht", "expected": "1", "ok": False}
    for nearest in (
        {"example": "refused", "conditions": [condition, condition | {"actual": "2"}]},
        {"operationId": "listGoods", "method": "GET", "path": "/goods", "differs": "method"},
        {"operationId": "listGoods", "method": "GET", "path": "/goods", "differs": "method"},
    ):
        served.note(SPACE, outcome=CallOutcome.NO_MATCH, status=404, nearest=nearest)

    page = text(reader.get(run))

    assert 'data-unmatched="3"' in page
    assert "Nearest example: <strong>refused</strong>" in page
    assert "body yacht must be 1; it is missing" in page
    assert "body yacht must be 1; it is 2" in page
    assert "Nearest operation: <strong>GET /goods</strong>" in page
    assert page.count("the method differs") == 3, "one for both above, each below"
    assert page.index("no example answered") < page.index('aria-label="Calls"')
    assert "2 times" in page


def test_a_call_that_breaks_its_contract_says_how(reader: Client, served: MemoryParts, run: str):
    error = {"pointer": "/query/limit", "code": "invalid_value", "detail": "must be ≤ 100"}
    served.note(SPACE, contract_errors=[error])

    page = text(reader.get(run))

    assert "breaks its contract" in page
    assert "<code>/query/limit</code> must be ≤ 100" in page


def test_a_run_without_calls_teaches_how_to_make_one(
    reader: Client, run: str, monkeypatch: pytest.MonkeyPatch
):
    page = text(reader.get(run))
    assert "PARTITA_MOCK_PSP_SHOP_URL" in page
    assert "PARTITA_MOCK_PSP_PAYMENTS_URL" in page

    monkeypatch.setattr(mocks, "executions", served_by())
    page = text(reader.get(run))
    assert "This run serves no mocks" in page
    assert "PARTITA_MOCK_PSP_URL" in page


def test_each_import_of_a_run_has_a_section(
    reader: Client, served: MemoryParts, monkeypatch: pytest.MonkeyPatch
):
    imported = SpaceName("shop", RUN, "pay/db")
    spaces = served_by(("psp", SPACE, ("shop",)), ("pay/db/psp", imported, ("shop",)))
    monkeypatch.setattr(mocks, "executions", spaces)
    served.note(imported, path="/of-the-import")

    page = text(reader.get(f"/executions/{RUN}/mocks"))

    assert "pay/db <span" in page
    assert "/of-the-import" in page
    assert "PARTITA_MOCK_PSP_URL" in page


@pytest.mark.parametrize(("role", "status"), [("runner", 200), ("viewer", 403)])
def test_runners_empty_a_space_of_their_run_and_viewers_do_not(
    reader: Client, served: MemoryParts, run: str, role: str, status: int
):
    Membership.objects.update(role=role)
    served.note(SPACE)
    reset = {"what": "calls", "space": str(SPACE)}

    assert ("Clear the calls" in text(reader.get(run))) == (role == "runner")
    assert reader.post(f"{run}/reset", reset).status_code == status
    assert len(served.journal.newest(str(SPACE))) == (role == "viewer")


def test_only_spaces_of_the_run_are_emptied(reader: Client, run: str):
    other = {"what": "calls", "space": "shop@run-aaaaaaaaaaaa"}

    assert reader.post(f"{run}/reset", other).status_code == 400
    assert reader.post("/executions/run-aaaaaaaaaaaa/mocks/reset", other).status_code == 404


@pytest.mark.parametrize(
    ("explanation", "words"),
    [
        ({"error": {"code": "mock_no_match", "detail": "nothing"}}, "mock_no_match: nothing"),
        ({"fallback": "static"}, "No example is chosen; the fallback answers: static"),
        ({"schemaErrors": ["x"]}, "Refused: the request breaks the schema of the example"),
        ({"chosen": "ok"}, "Answered by example by dispatcher sequence"),
    ],
)  # fmt: skip
def test_a_verdict_is_one_sentence(explanation: dict[str, Any], words: str):
    known = {"constraints": [], "schemaErrors": [], "dispatcher": "sequence"}

    verdict = mock_display.verdict(known | explanation)

    assert f"{verdict.text} {verdict.more}".strip() == words


def test_times_are_short():
    assert [mock_display.took(each) for each in (0.44, 25.2, 1240.0)] == [
        "0.4 ms",
        "25 ms",
        "1.2 s",
    ]


def test_a_missed_expectation_leads_to_the_calls():
    missed = FailedCase(
        step_id="s", step_name="S", name="psp", classname="expect_calls", message="", text=""
    )
    other = replace(missed, classname="shop")

    pages = [
        render_to_string("console/_failed_tests.html", {"failed_cases": [each]})
        for each in (missed, other)
    ]

    assert ['data-show-tab="mocks"' in page for page in pages] == [True, False]


def test_the_calls_opened_by_hand_are_a_whole_page_and_a_fragment_for_htmx(admin: Client):
    whole = text(admin.get("/suites/shop/mocks"))
    part = text(admin.get("/suites/shop/mocks", headers={"HX-Request": "true"}))

    assert whole.lstrip().startswith("<!doctype html>")
    assert 'href="/suites/shop"' in whole
    assert "<html" not in part
