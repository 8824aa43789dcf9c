"""What is asked again while a server is away, and what is not."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from partita_client.errors import (
    ApiProblem,
    BadConfiguration,
    ClientError,
    NoConnection,
    NoTls,
    NotPartita,
    UnknownHost,
)
from partita_client.patience import UNKNOWN_HOST_S, FirstContact, wait_for_answer
from tests.client.test_streams import Clock


def problem(status: int) -> ApiProblem:
    return ApiProblem(status=status, code="busy", detail="no")


def answers_after(error: ClientError, times: int) -> Callable[[], str]:
    """Return what fails so often before it answers."""
    left = [error] * times

    def ask() -> str:
        if left:
            raise left.pop()
        return "here"

    return ask


@pytest.mark.parametrize(
    "error",
    [NoConnection("cut"), NotPartita("a page"), NotPartita("a page", status=502),
     problem(408), problem(429), problem(500), problem(503), problem(524)],
    ids=["cut", "page", "page of a proxy", "408", "429", "500", "503", "524"],
)  # fmt: skip
def test_an_absence_is_waited_for_and_told_once(error: ClientError):
    told: list[str] = []

    found = wait_for_answer(
        answers_after(error, 2), until=time.monotonic() + 60, on_away=told.append
    )
    assert (found, told) == ("here", [error.detail])


@pytest.mark.parametrize(
    "error",
    [BadConfiguration("no"), NotPartita("elsewhere", status=302), NotPartita("no", status=404),
     problem(401), problem(403), problem(501), NoConnection("a certificate", is_permanent=True),
     NotPartita("no HTTP", is_permanent=True)],
    ids=["wrong", "302", "404", "401", "403", "501", "certificate", "no HTTP"],
)  # fmt: skip
def test_a_refusal_is_an_answer(error: ClientError):
    with pytest.raises(type(error)):
        wait_for_answer(answers_after(error, 1), until=time.monotonic() + 60, on_away=str)


def test_an_absence_is_not_waited_for_longer_than_it_was_allowed():
    with pytest.raises(NoConnection):
        wait_for_answer(answers_after(NoConnection("cut"), 99), until=0.0, on_away=str)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr("partita_client.patience.time", found)
    return found


def waited_for(*errors: ClientError, clock: Clock, contact: FirstContact) -> float:
    """Return how long a command waits that meets these errors, the last one from then on."""
    began, coming = clock.now, iter(errors)
    last = errors[-1]

    def ask() -> str:
        raise next(coming, last)

    with pytest.raises(type(last)):
        wait_for_answer(ask, until=clock.now + 300, on_away=str, contact=contact)
    return clock.now - began


BUSY = problem(503)
REFUSED = NoConnection("refused")


def test_a_host_that_nobody_knows_is_waited_for_as_long_as_names_may_lag(clock: Clock):
    waited_s = waited_for(UnknownHost("no"), clock=clock, contact=FirstContact())

    assert UNKNOWN_HOST_S <= waited_s < UNKNOWN_HOST_S + 6


def test_a_host_whose_name_is_found_late_is_asked(clock: Clock):
    ask = answers_after(UnknownHost("no"), 4)

    found = wait_for_answer(ask, until=clock.now + 300, on_away=str, contact=FirstContact())

    assert found == "here"


def test_a_host_without_tls_is_not_waited_for(clock: Clock):
    assert waited_for(NoTls("no"), clock=clock, contact=FirstContact()) == 0


@pytest.mark.parametrize("first", [BUSY, NotPartita("a page", status=502)], ids=["503", "page"])
@pytest.mark.parametrize("error", [UnknownHost("no"), NoTls("no")], ids=["host", "TLS"])
def test_a_server_that_has_answered_is_waited_for_with_the_whole_patience(
    clock: Clock, first: ClientError, error: ClientError
):
    assert waited_for(first, error, clock=clock, contact=FirstContact()) >= 300


def test_an_answer_counts_for_all_that_the_command_asks_later(clock: Clock):
    contact = FirstContact()
    wait_for_answer(lambda: "here", until=clock.now, on_away=str, contact=contact)

    assert waited_for(UnknownHost("no"), clock=clock, contact=contact) >= 300


def test_a_refused_connection_is_waited_for_as_before(clock: Clock):
    """There is a host, which may just start."""
    assert waited_for(REFUSED, clock=clock, contact=FirstContact()) >= 300


def test_only_a_host_that_stays_unknown_is_given_up(clock: Clock):
    """Its name was known in between: what lags is the DNS."""
    turns: Iterator[ClientError] = iter([UnknownHost("no"), REFUSED] * 15)
    began = clock.now

    def ask() -> str:
        if (error := next(turns, None)) is not None:
            raise error
        return "here"

    assert wait_for_answer(ask, until=clock.now + 300, on_away=str, contact=FirstContact())
    assert clock.now - began > UNKNOWN_HOST_S
