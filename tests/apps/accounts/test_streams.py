"""What opens a stream: headers, cookies, tickets, and tokens in the query.

(reference: control-plane 3)
"""

from __future__ import annotations

import re
from datetime import timedelta

import pytest

from apps.accounts.models import StreamTicket, User
from kernel.clock import now
from tests.apps.accounts.conftest import Api
from tests.support.api_clients import problem

PATH = "/api/v1/executions/run-3f9a0c1be77d/logs"
OTHER = "/api/v1/executions/run-3f9a0c1be77d/events"


def ticket_of(caller: Api, path: str | None = None):
    answer = caller.auth("stream-tickets", {"path": path} if path else {})
    assert answer.status_code == 201, answer.content
    return answer.json()["ticket"]


def open_stream(token: str, path: str = PATH):
    return Api().get(path, {"token": token})


def test_a_ticket_lives_sixty_seconds(ada):
    answer = ada.auth("stream-tickets")

    assert answer.status_code == 201
    assert set(answer.json()) == {"ticket", "expiresAt"}
    assert len(answer.json()["ticket"]) == 43
    assert re.fullmatch(r".*\.\d{3}Z", answer.json()["expiresAt"])
    life = StreamTicket.objects.get().expires_at - now()
    assert timedelta(seconds=55) < life <= timedelta(seconds=60)


def test_a_ticket_opens_one_stream_once(ada):
    ticket = ticket_of(ada, PATH)

    first, second = open_stream(ticket), open_stream(ticket)

    assert first.json() == {"email": "ada@example.org", "alive": True}
    assert problem(second) == (401, "ticket_invalid")


def test_a_ticket_is_bound_to_its_path(ada):
    ticket = ticket_of(ada, PATH)

    assert problem(open_stream(ticket, OTHER)) == (401, "ticket_invalid")
    assert open_stream(ticket, PATH).status_code == 200


def test_a_ticket_without_a_path_opens_any_stream(ada):
    assert open_stream(ticket_of(ada), "/api/v1/engine/overview/stream").status_code == 200


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/auth/me",
        "/api/v1/executions/run-1",
        "/api/v1/executions/a/b/logs",
        "https://elsewhere/api/v1/executions/run-1/logs",
        "/api/v1/engine/overview/stream?x=1",
    ],
)
def test_a_ticket_is_for_streams_only(ada, path):
    answer = ada.auth("stream-tickets", {"path": path})

    assert problem(answer) == (400, "validation_failed")
    assert answer.json()["errors"][0]["pointer"] == "/path"


def test_an_expired_ticket_does_not_count(ada):
    ticket = ticket_of(ada)
    StreamTicket.objects.update(expires_at=now())

    assert problem(open_stream(ticket)) == (401, "ticket_invalid")


def test_a_ticket_dies_with_the_token_that_asked_for_it(ada):
    """Invariants 12 and 18."""
    ticket = ticket_of(ada)
    ada.auth("sign-out")

    assert problem(open_stream(ticket)) == (401, "ticket_invalid")


def test_a_ticket_dies_with_the_session_that_asked_for_it(browser):
    """Invariants 12 and 18."""
    csrf = browser.cookies["csrftoken"].value  # since the sign-in
    answer = browser.post(
        "/api/v1/auth/stream-tickets",
        {},
        content_type="application/json",
        headers={"X-CSRFToken": csrf},
    )
    ticket = answer.json()["ticket"]
    browser.get("/page/sign-out")

    assert problem(open_stream(ticket)) == (401, "ticket_invalid")


def test_a_ticket_of_a_disabled_account_does_not_count(ada):
    """Invariant 18."""
    from apps.accounts import selectors

    ticket = ticket_of(ada)
    User.objects.update(is_active=False)
    selectors._cache.clear()

    assert open_stream(ticket).status_code == 401


def test_a_stream_takes_an_access_token_in_the_query(ada):
    assert open_stream(ada.token).status_code == 200
    assert problem(open_stream(ada.token + "x")) == (401, "token_invalid")


def test_a_stream_takes_header_and_cookie_as_well(ada, browser):
    assert ada.get(PATH).json()["alive"]
    assert browser.get(PATH).json()["alive"]


def test_a_bearer_header_is_all_that_is_looked_at(ada):
    answer = Api(token="stale").get(PATH, {"token": ada.token})

    assert problem(answer) == (401, "token_invalid")


def test_a_stream_needs_a_credential(api):
    """Invariant 36."""
    assert problem(api.get(PATH)) == (401, "unauthenticated")
    assert problem(open_stream("")) == (401, "ticket_invalid")


def test_a_ticket_is_no_credential_elsewhere(ada):
    ticket = ticket_of(ada)

    assert problem(Api(token=ticket).me()) == (401, "token_invalid")


def test_tickets_are_stored_hashed(ada):
    """Invariant 19."""
    ticket = ticket_of(ada)

    assert ticket not in str(StreamTicket.objects.values())


def test_sixty_tickets_a_minute(ada):
    answers = [ada.auth("stream-tickets") for _ in range(61)]

    assert {answer.status_code for answer in answers[:60]} == {201}
    assert problem(answers[60]) == (429, "rate_limited")
