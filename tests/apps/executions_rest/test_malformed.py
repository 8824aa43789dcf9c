"""Invariants 26 and 33: what is malformed or unknown is refused, and never an error of ours."""

from __future__ import annotations

import pytest

from tests.apps.executions_rest.conftest import make_run
from tests.support.api_clients import problem

RUN = "run-0123456789ab"
LISTS = [
    ({"limit": "0"}, "invalid_parameter"),
    ({"limit": "201"}, "invalid_parameter"),
    ({"limit": "²"}, "invalid_parameter"),
    ({"status": "healthy"}, "invalid_parameter"),
    ({"status": "Healthy,"}, "invalid_parameter"),
    ({"status": ""}, "invalid_parameter"),
    ({"trigger": "manual"}, "invalid_parameter"),
    ({"since": "yesterday"}, "invalid_parameter"),
    ({"since": "2026-01-01T00:00:00"}, "invalid_parameter"),
    ({"since": "0001-01-01T00:00:00+14:00"}, "invalid_parameter"),
    ({"since": ""}, "invalid_parameter"),
    ({"until": "9999-12-31T23:59:59-14:00"}, "invalid_parameter"),
    ({"q": "\x00"}, "invalid_parameter"),
    ({"suiteId": "\x00"}, "invalid_parameter"),
    ({"q": "x" * 501}, "invalid_parameter"),
    ({"workspaceId": "mine"}, "invalid_parameter"),
    ({"token": "x"}, "unknown_parameter"),
    ({"page": "2"}, "unknown_parameter"),
    ({"cursor": "x.y"}, "invalid_cursor"),
]


def test_a_comma_list_is_understood(ada):
    assert ada.get("executions", {"status": "Healthy,Failed"}).status_code == 200


@pytest.mark.parametrize(("query", "code"), LISTS)
def test_a_list_refuses_what_it_does_not_understand(ada, query, code):
    answer = ada.get("executions", query)

    assert problem(answer) == (400, code)


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ({}, "invalid_parameter"),
        ({"q": ""}, "invalid_parameter"),
        ({"q": "(", "regex": "true"}, "invalid_parameter"),
        ({"q": "a{1000}{1000}", "regex": "true"}, "invalid_parameter"),
        ({"q": "x", "regex": "yes"}, "invalid_parameter"),
        ({"q": "x", "kind": "stdout"}, "invalid_parameter"),
        ({"q": "x", "level": "fatal"}, "invalid_parameter"),
        ({"q": "x" * 1001}, "invalid_parameter"),
        ({"q": "x", "source": "\x00"}, "invalid_parameter"),
        ({"q": "x", "cursor": "x"}, "invalid_cursor"),
        ({"q": "x", "line": "3"}, "unknown_parameter"),
    ],
)
def test_a_search_refuses_what_it_does_not_understand(ada, query, code):
    row = make_run(ada.workspace_id)

    answer = ada.get(f"executions/{row.run_id}/logs/search", query)

    assert problem(answer) == (400, code)


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("?omit=everything", "invalid_parameter"),
        ("?limit=3", "unknown_parameter"),
        ("/events?since=-1", "invalid_parameter"),
        ("/events?since=x", "invalid_parameter"),
        ("/events?source=db", "unknown_parameter"),
        ("/logs?since=1.5", "invalid_parameter"),
        ("/logs?after=1", "unknown_parameter"),
        ("/logs/download?format=zip", "invalid_parameter"),
        ("/logs/download?token=x", "unknown_parameter"),
        ("/logs/download?source=%00", "invalid_parameter"),
        ("/junit?x=1", "unknown_parameter"),
    ],
)
def test_reads_of_a_run_refuse_what_they_do_not_understand(ada, path, code):
    row = make_run(ada.workspace_id)

    assert problem(ada.get(f"executions/{row.run_id}{path}")) == (400, code)


@pytest.mark.parametrize(
    "run_id", ["x", "run-0123456789AB", "run-0123456789abc", "%00", "run-%0a123456789a", "%ff", "…"]
)
def test_what_is_no_id_is_an_unknown_one(ada, run_id):
    for path in ("", "/events", "/logs", "/logs/download", "/junit", "/artifacts/x"):
        assert problem(ada.get(f"executions/{run_id}{path}")) == (404, "execution_not_found")


@pytest.mark.parametrize("artifact_id", ["x", "%00", "A", "%2e%2e", "a" * 400, "é"])
def test_what_is_no_artifact_is_an_unknown_one(ada, artifact_id):
    row = make_run(ada.workspace_id)

    answer = ada.get(f"executions/{row.run_id}/artifacts/{artifact_id}")

    assert problem(answer) == (404, "artifact_not_found")


@pytest.mark.parametrize(
    ("body", "pointer", "code"),
    [
        ({}, "/suiteId", "required"),
        ({"suiteId": 3}, "/suiteId", "wrong_type"),
        ({"suiteId": ""}, "/suiteId", "invalid_value"),
        ({"suiteId": "shop", "keepAliveMs": 14_400_001}, "/keepAliveMs", "invalid_value"),
        ({"suiteId": "shop", "keepAliveMs": -1}, "/keepAliveMs", "invalid_value"),
        ({"suiteId": "shop", "keepAliveMs": "1"}, "/keepAliveMs", "wrong_type"),
        ({"suiteId": "shop", "trigger": "Rerun"}, "/trigger", "invalid_value"),
        ({"suiteId": "shop", "message": "x" * 10_001}, "/message", "invalid_value"),
        ({"suiteId": "shop", "retries": 3}, "/retries", "unknown_field"),
        ({"suiteId": "shop", "concurrency": "main"}, "/concurrency", "wrong_type"),
        ({"suiteId": "shop", "concurrency": {}}, "/concurrency/group", "required"),
        ({"suiteId": "shop", "concurrency": {"group": ""}}, "/concurrency/group", "invalid_value"),
        (
            {"suiteId": "shop", "concurrency": {"group": "x" * 129}},
            "/concurrency/group",
            "invalid_value",
        ),
        (
            {"suiteId": "shop", "concurrency": {"group": "g", "cancelInProgress": "perhaps"}},
            "/concurrency/cancelInProgress",
            "wrong_type",
        ),
        (
            {"suiteId": "shop", "concurrency": {"group": "g", "cancel-in-progress": True}},
            "/concurrency/cancel-in-progress",
            "unknown_field",
        ),
        ([], "", "wrong_type"),
    ],
)
def test_a_launch_names_the_key_at_fault(ada, body, pointer, code):
    answer = ada.post("executions", body)

    assert problem(answer) == (400, "validation_failed")
    (fault,) = answer.json()["errors"]
    assert (fault.get("pointer", ""), fault["code"]) == (pointer, code)


@pytest.mark.parametrize("key", ["", "x" * 129, "a b", "é"])
def test_an_idempotency_key_is_visible_ascii(ada, key):
    answer = ada.post("executions", {"suiteId": "shop"}, **{"Idempotency-Key": key})

    assert problem(answer) == (400, "invalid_parameter")


def test_bodies_are_json_objects_with_known_keys(ada):
    row = make_run(ada.workspace_id)
    path = f"/api/v1/executions/{row.run_id}/cancel"
    headers = {"Authorization": ada.bearer}

    broken = ada.client.post(path, b"{", content_type="application/json", headers=headers)
    form = ada.client.post(path, {"reason": "x"}, headers=headers)
    unknown = ada.post(f"executions/{row.run_id}/cancel", {"why": "x"})

    assert problem(broken) == (400, "malformed_json")
    assert problem(form) == (415, "unsupported_media_type")
    assert problem(unknown) == (400, "validation_failed")


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("put", "executions", {"GET", "POST", "HEAD", "OPTIONS"}),
        ("post", f"executions/{RUN}", {"GET", "DELETE", "HEAD", "OPTIONS"}),
        ("get", f"executions/{RUN}/cancel", {"POST", "OPTIONS"}),
        ("post", f"executions/{RUN}/events", {"GET", "HEAD", "OPTIONS"}),
        ("delete", f"executions/{RUN}/logs/download", {"GET", "HEAD", "OPTIONS"}),
        ("post", "engine/overview/stream", {"GET", "HEAD", "OPTIONS"}),
    ],
)
def test_other_methods_are_told_what_is_allowed(ada, method, path, allowed):
    answer = getattr(ada.client, method)(f"/api/v1/{path}", headers={"Authorization": ada.bearer})

    assert problem(answer) == (405, "method_not_allowed")
    assert {name.strip() for name in answer["Allow"].split(",")} == allowed
