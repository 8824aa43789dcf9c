"""Every error is a problem document (reference: control-plane 1.1)."""

from __future__ import annotations

import json

import pytest

from tests.apps.http.conftest import Ask

PROBLEM = "application/problem+json"
REQUEST = {"X-Request-Id": "7f0c"}


def test_a_problem_is_what_the_reference_shows_byte_for_byte(ask: Ask) -> None:
    answer = ask("GET", "/api/v1/profiles/suites/shop", headers=REQUEST)

    assert answer.status_code == 400
    assert answer.headers["content-type"] == PROBLEM
    assert answer.text == (
        '{"type":"urn:partita:problem:validation_failed","title":"Validation failed","status":400,'
        '"detail":"fileName must end in .yaml or .yml","instance":"/api/v1/profiles/suites/shop",'
        '"code":"validation_failed","requestId":"7f0c",'
        '"error":"fileName must end in .yaml or .yml",'
        '"errors":[{"pointer":"/fileName","code":"invalid_extension",'
        '"detail":"must end in .yaml or .yml"}]}'
    )


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/nowhere", 404, "not_found"),
        ("GET", "/api/v1/nowhere", 404, "not_found"),
        ("GET", "/api/v1/names/", 404, "not_found"),
        ("GET", "/static/nothing.css", 404, "not_found"),
        ("GET", "/static/../manage.py", 404, "not_found"),
        ("POST", "/healthz", 405, "method_not_allowed"),
        ("DELETE", "/api/v1/names", 405, "method_not_allowed"),
        ("PATCH", "/api/v1/echo", 405, "method_not_allowed"),
        ("GET", "/api/v1/fault", 500, "internal_error"),
        ("GET", "/api/v1/plain-fault", 500, "internal_error"),
        ("GET", "/api/v1/busy", 503, "queue_full"),
        ("GET", "/api/v1/names?nope=1", 400, "unknown_parameter"),
        ("GET", "/readyz/nope", 404, "subsystem_not_found"),
        ("GET", "/api/v1/catalog/packages", 401, "unauthenticated"),
        ("GET", "/api/v1/schema", 401, "unauthenticated"),
        ("GET", "/api/v1/docs", 401, "unauthenticated"),
        ("POST", "/sign-in", 403, "csrf_failed"),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_every_error_is_a_problem(ask: Ask, method: str, path: str, status: int, code: str) -> None:
    answer = ask(method, path)

    body = answer.json()
    assert (answer.status_code, answer.headers["content-type"]) == (status, PROBLEM)
    assert (body["status"], body["code"]) == (status, code)
    assert body["error"] == body["detail"]
    assert body["requestId"] == answer.headers["x-request-id"]


def test_an_internal_error_says_nothing_of_its_cause(ask: Ask) -> None:
    for path in ("/api/v1/fault", "/api/v1/plain-fault"):
        assert "hunter2" not in ask("GET", path).text


def test_statuses_come_with_their_headers(ask: Ask) -> None:
    assert ask("GET", "/api/v1/busy").headers["retry-after"] == "7"
    assert ask("GET", "/api/v1/schema").headers["www-authenticate"] == "Bearer"
    assert ask("POST", "/healthz").headers["allow"] == "GET, HEAD, OPTIONS"
    assert ask("DELETE", "/api/v1/names").headers["allow"] == "GET, HEAD, OPTIONS"


def test_options_names_the_methods(ask: Ask) -> None:
    answer = ask("OPTIONS", "/api/v1/names")

    assert (answer.status_code, answer.text) == (204, "")
    assert answer.headers["allow"] == "GET, HEAD, OPTIONS"


def test_the_problem_of_another_id_differs_only_in_the_request_id(ask: Ask) -> None:
    first, second = (json.loads(ask("GET", "/nowhere").text) for _ in range(2))

    assert first.pop("requestId") != second.pop("requestId")
    assert first == second


def test_a_route_says_which_methods_it_has(ask: Ask, signed_in: None) -> None:
    answer = ask("POST", "/api/v1/sandboxes")

    assert answer.status_code == 405
    assert answer.headers["allow"] == "GET, HEAD, OPTIONS"


@pytest.mark.django_db
def test_a_browser_that_asks_for_a_page_gets_its_error_as_one(ask: Ask) -> None:
    page = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}

    answer = ask("GET", "/nowhere", headers=page)

    assert (answer.status_code, answer.headers["content-type"]) == (404, "text/html; charset=utf-8")
    assert answer.headers["x-request-id"] in answer.text
    assert ask("GET", "/api/v1/nowhere", headers=page).headers["content-type"] == PROBLEM
