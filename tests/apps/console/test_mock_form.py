from __future__ import annotations

import json
from typing import Any

from apps.console.domain.mock_explorer import call_form


def operation(
    *,
    command: str = "curl -i http://localhost/mocks/rest/shop/shop/goods",
    url: str = "http://localhost/mocks/rest/shop/shop/goods",
    method: str = "GET",
    adapter: str = "rest",
    constraints: tuple[dict[str, Any], ...] = (),
    exchanges: tuple[dict[str, Any], ...] = (),
) -> dict[str, Any]:
    return {
        "method": method,
        "mockUrl": url,
        "curlCommand": command,
        "mockMetadata": {"adapter": adapter, "parameterConstraints": list(constraints)},
        "exchanges": list(exchanges),
    }


def exchange(name: str, *when: tuple[str, str, str], **more: Any) -> dict[str, Any]:
    conditions = [{"from": from_, "param": param, "value": value} for from_, param, value in when]
    return {"name": name, "when": conditions, "requestHeaders": {}, **more}


def test_an_operation_without_examples_is_called_as_its_command_does():
    form = call_form(
        operation(
            url="https://mocks.example/base/mocks/rest/shop/shop/orders/{id}",
            command="curl -i -X POST 'https://mocks.example/base/mocks/rest/shop/shop/orders/a%2Fb"
            "?full=1' -H 'Content-Type: application/json' --data-raw '{\"apple\": 2}'",
            method="POST",
            constraints=({"name": "X-Shop", "source": "header"}, {"name": "q", "source": "query"}),
        )
    )

    assert form.address == "/mocks/rest/shop/shop/orders/{id}"
    assert form.takes_body
    assert form.params == ("id",)
    (sample,) = form.samples
    assert sample.path == {"id": "a/b"}
    assert sample.query == {"q": "", "full": "1"}
    assert sample.headers == {"X-Shop": "", "Content-Type": "application/json"}
    assert json.loads(sample.body) == {"apple": 2}


def test_each_example_fills_in_what_its_conditions_want():
    form = call_form(
        operation(
            command="curl -i http://localhost/mocks/rest/shop/shop/goods?q=ea&page=1".replace(
                "http", "'http"
            )
            + "'",
            exchanges=(
                exchange("search", ("query", "q", "ea")),
                exchange("french", ("header", "Accept-Language", "fr"), ("query", "q", "")),
                exchange("everything"),
            ),
        )
    )

    assert not form.takes_body
    search, french, everything = form.samples
    assert search.query == {"q": "ea", "page": "1"}
    assert french.headers == {"Accept-Language": "fr"}
    assert everything.query == {"q": "", "page": "1"}, "what decides for another is left out"


def test_a_body_is_the_examples_own_or_the_smallest_that_matches():
    form = call_form(
        operation(
            method="POST",
            exchanges=(
                exchange("given", requestBody='{"a":1}'),
                exchange(
                    "made",
                    ("body", "order.items[1].sku", "x-1"),
                    ("body", "order.paid", "true"),
                    ("body", "order", "later ones give way"),
                ),
            ),
        )
    )

    given, made = form.samples
    assert given.body == '{\n  "a": 1\n}'
    assert json.loads(made.body) == {"order": "later ones give way"}


def test_paths_of_bodies_may_have_indexes():
    form = call_form(
        operation(
            method="POST",
            exchanges=(
                exchange("made", ("body", "items[1].sku", "x-1"), ("body", "items[0].n", "2")),
                exchange("far", ("body", "items[999999999].sku", "x")),
            ),
        )
    )

    made, far = form.samples
    assert json.loads(made.body) == {"items": [{"n": 2}, {"sku": "x-1"}]}
    assert json.loads(far.body) == {"items": []}


def test_operations_of_grpc_and_events_are_posted():
    form = call_form(
        operation(
            adapter="async",
            method="SUBSCRIBE",
            url="http://localhost/mocks/async/shop/events/orderPlaced",
        )
    )

    assert (form.method, form.takes_body) == ("POST", True)
