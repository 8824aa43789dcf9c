"""GET /suites and /suites/{id} (reference: control-plane 9)."""

from __future__ import annotations

import pytest
from rest_framework.test import APIClient

from tests.support.api_clients import problem, signed_in_client

GOOD = 'task.run("t", image="busybox:1.36")\n'
pytestmark = pytest.mark.urls("tests.apps.suites.urlconf")


@pytest.fixture
def client() -> APIClient:
    return signed_in_client()


@pytest.fixture
def shop(workspace):
    workspace.add("shop", {"suite.star": GOOD, "metadata.yaml": "{title: Shop, tags: [demo]}"})
    workspace.add("pay", {"suite.star": "nope", "metadata.yaml": "{title: apples}"})
    return workspace


def test_a_list_shows_every_suite_by_title(client, shop):
    answer = client.get("/api/v1/suites").json()

    assert [suite["id"] for suite in answer["suites"]] == ["pay", "shop"]
    assert answer["total"] == 2
    assert "nextCursor" not in answer
    assert answer["suites"][0]["topologyError"]["code"] == "eval_error"
    assert all("content" not in file for file in answer["suites"][1]["sourceFiles"])


@pytest.mark.parametrize(
    ("query", "ids"),
    [
        ("q=SHO", ["shop"]),
        ("q=workspace/", ["pay", "shop"]),
        ("q=nothing", []),
        ("tag=demo", ["shop"]),
        ("tag=workspace", ["pay", "shop"]),
        ("tag=de", []),
    ],
)
def test_a_list_is_filtered(client, shop, query, ids):
    answer = client.get(f"/api/v1/suites?{query}").json()

    assert [suite["id"] for suite in answer["suites"]] == ids
    assert answer["total"] == len(ids)


def test_a_summary_drops_the_large_parts(client, shop):
    suite = client.get("/api/v1/suites?view=summary").json()["suites"][1]

    left_out = {"suiteStar", "folders", "sourceFiles", "topology", "apiSurfaces"}
    assert not left_out & set(suite)
    assert suite["launchable"]


def test_a_list_is_paged(client, shop):
    first = client.get("/api/v1/suites?limit=1").json()
    second = client.get(f"/api/v1/suites?limit=1&cursor={first['nextCursor']}").json()

    assert [first["suites"][0]["id"], second["suites"][0]["id"]] == ["pay", "shop"]
    assert (first["total"], second["total"]) == (2, 2)
    assert "nextCursor" not in second


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("suites?x=1", (400, "unknown_parameter")),
        ("suites?limit=0", (400, "invalid_parameter")),
        ("suites?view=all", (400, "invalid_parameter")),
        ("suites?cursor=x", (400, "invalid_cursor")),
        ("suites/shop?x=1", (400, "unknown_parameter")),
        ("suites/shop?profile=x", (400, "profile_not_in_suite")),
        ("suites/nowhere", (404, "suite_not_found")),
    ],
)
def test_a_bad_request_is_refused(client, shop, path, expected):
    assert problem(client.get(f"/api/v1/{path}")) == expected


def test_a_definition_has_an_etag_that_spares_the_second_answer(client, shop):
    first = client.get("/api/v1/suites/shop")
    again = client.get("/api/v1/suites/shop", HTTP_IF_NONE_MATCH=first["ETag"])
    shop.add("shop", GOOD.replace('"t"', '"u"'))
    changed = client.get("/api/v1/suites/shop", HTTP_IF_NONE_MATCH=first["ETag"])

    assert first.json()["topology"][0]["id"] == "t"
    assert (again.status_code, again.content) == (304, b"")
    assert (changed.status_code, changed.json()["topology"][0]["id"]) == (200, "u")


def test_a_broken_suite_is_an_answer_and_no_error(client, shop):
    """Invariants 25 and 33."""
    answer = client.get("/api/v1/suites/pay")

    assert answer.status_code == 200
    assert answer.json()["topologyError"]["line"] == 1
    assert "topology" not in answer.json()


def test_nobody_reads_suites_without_a_session(shop):
    assert APIClient().get("/api/v1/suites").status_code == 401
