"""What is asked again while a server is away, and what is not."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from partita_client.errors import (
    ApiProblem,
    BadConfiguration,
    ClientError,
    NoConnection,
    NotPartita,
)
from partita_client.patience import wait_for_answer


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
     problem(429), problem(500), problem(503)],
    ids=["cut", "page", "page of a proxy", "429", "500", "503"],
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
