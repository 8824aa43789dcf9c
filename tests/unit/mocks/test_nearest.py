"""What an unmatched call was nearest to."""

from __future__ import annotations

import pytest

from mocks.engine import nearest as nearest_module
from mocks.engine.nearest import MAX_OPERATIONS, nearest
from mocks.model.calls import MockRequest
from tests.support.mocks import mock_of, mocks_of

EXAMPLES = """one: {when: [{from: query, param: a, value: 1}, {from: query, param: b, value: 1},
  {from: query, param: c, value: 1}]}, two: {when: [{from: query, param: a, value: 1},
  {from: query, param: b, value: 2}]}, three: {when: [{from: query, param: b, value: 3}]},
  four: {when: [{from: state, param: s, value: x}, {from: header, param: X-Api-Key, value: k}]}"""
SPEC = "path: /pay, method: GET, state: {lookupKeyTemplate: k, defaults: {s: y}}"


@pytest.mark.parametrize(
    ("target", "example", "failing"),
    [
        ("/pay?a=1&b=1&c=2", "one", ["c"]),
        ("/pay?a=1&b=2x&c=2", "two", ["b"]),
        ("/pay?a=1", "two", ["b"]),
        ("/pay?a=1&c=1", "one", ["b"]),
        ("/pay", "three", ["b"]),
    ],
)
async def test_it_is_the_example_of_which_most_conditions_hold(target, example, failing):
    answer = await mock_of(SPEC, EXAMPLES).call(target)
    assert answer.nearest is not None
    assert answer.nearest["example"] == example
    assert [each["param"] for each in answer.nearest["conditions"]] == failing


async def test_of_equals_it_is_the_first_in_the_file():
    when = "[{from: query, param: %s, value: 1}]"
    mocks = mock_of(SPEC, ", ".join(f"{name}: {{when: {when % name}}}" for name in "xyz"))
    answer = await mocks.call("/pay")
    assert answer.nearest is not None
    assert answer.nearest["example"] == "x"


async def test_expected_and_actual_are_shown_but_no_credential():
    mocks = mock_of(SPEC, f"x: {{{EXAMPLES.partition('four: {')[2]}")
    answer = await mocks.call("/pay", headers={"X-Api-Key": "secret value"})
    assert answer.nearest == {
        "example": "x",
        "conditions": [
            {"from": "state", "param": "s", "expected": "x", "actual": "y", "ok": False},
            {"from": "header", "param": "X-Api-Key", "expected": "k", "actual": "********",
             "ok": False},
        ],
    }  # fmt: skip


async def test_a_record_counts_when_it_is_given():
    mocks = mock_of(SPEC, "x: {when: [{from: state, param: s, value: x}]}")
    operation, request = mocks.request("/pay")
    await mocks.state.change("shop", "k", "payments", version=0, fields={"s": "z"})
    found = nearest(operation, request, await mocks.state.read("shop", "k"))
    assert found is not None
    assert found["conditions"][0]["actual"] == "z"
    assert (await mocks.call("/pay")).nearest == found
    without = nearest(operation, request)
    assert without is not None
    assert without["conditions"][0]["actual"] == "y"


def test_an_operation_without_examples_has_none():
    operation, request = mock_of("path: /pay, method: GET", "").request("/pay")
    assert nearest(operation, request) is None


@pytest.mark.parametrize(
    ("method", "path", "operation", "differs"),
    [
        ("PUT", "/pay/7", "get", "method"),
        ("GET", "/pay/7/line", "lines", "path"),
        ("GET", "/pays/7", "get", "path"),
        ("POST", "/pays/7", "post", "path"),
        ("GET", "/pay/7/lines/1/x", "lines", "path"),
        ("GET", "", "get", "path"),
    ],
)
def test_it_is_the_operation_of_another_method_or_of_a_similar_path(
    method, path, operation, differs
):
    mocks = mocks_of(
        {
            "mock/s/get.metadata.yaml": "spec: {method: GET, path: '/pay/{id}'}",
            "mock/s/lines.metadata.yaml": "spec: {method: GET, path: '/pay/{id}/lines'}",
            "mock/s/post.metadata.yaml": "spec: {method: POST, path: '/pay/{id}'}",
            "mock/s/say.metadata.yaml": "spec: {adapter: grpc, path: pay/say}",
        }
    )
    found = nearest(mocks.surface, MockRequest(method, path))
    assert found is not None
    assert (found["operationId"], found["differs"]) == (operation, differs)


def test_of_paths_without_an_equal_segment_it_is_the_one_that_begins_alike():
    mocks = mocks_of(
        {
            "mock/s/health.metadata.yaml": "spec: {method: GET, path: /health}",
            "mock/s/goods.metadata.yaml": "spec: {method: GET, path: /goods}",
        }
    )
    found = nearest(mocks.surface, MockRequest("GET", "/good"))
    assert found is not None
    assert found["path"] == "/goods"


def test_a_surface_without_rest_has_no_nearest_operation():
    mocks = mocks_of({"mock/s/say.metadata.yaml": "spec: {adapter: grpc, path: pay/say}"})
    assert nearest(mocks.surface, MockRequest("GET", "/x")) is None


def test_it_is_found_among_many_operations_without_a_look_at_all_of_them(monkeypatch):
    mocks = mocks_of(
        {
            f"mock/s/op{n}.metadata.yaml": f"spec: {{method: GET, path: '/api/thing{n}/{{id}}'}}"
            for n in range(MAX_OPERATIONS + 50)
        }
    )
    compared = []
    similarity = nearest_module._similarity

    def counted(*each):
        compared.append(each)
        return similarity(*each)

    monkeypatch.setattr(nearest_module, "_similarity", counted)
    for number in (0, MAX_OPERATIONS + 20):
        compared.clear()
        found = nearest(mocks.surface, MockRequest("GET", f"/api/thing{number}/7/x"))
        assert found is not None
        assert found["operationId"] == f"op{number}"
        assert len(compared) <= MAX_OPERATIONS
