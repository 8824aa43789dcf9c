"""Requests to a server that may be away for minutes, as during an upgrade."""

from __future__ import annotations

import time
from collections.abc import Callable
from http import HTTPStatus
from typing import TypeVar

from partita_client.errors import ApiProblem, ClientError, NoConnection, NotPartita
from partita_client.transport import pause_s

_Answer = TypeVar("_Answer")


def wait_for_answer(
    ask: Callable[[], _Answer], *, until: float, on_away: Callable[[str], object]
) -> _Answer:
    """Ask again while the server is away, until a time of `time.monotonic`; raise ClientError.

    `on_away` is told once, and why.
    """
    failures = 0
    while True:
        try:
            return ask()
        except ClientError as error:
            if not is_passing(error) or time.monotonic() >= until:
                raise
            if not failures:
                on_away(error.detail)
            time.sleep(min(pause_s(failures), max(0.0, until - time.monotonic())))
            failures += 1


def is_passing(error: ClientError) -> bool:
    """Return whether an error may pass by itself: no whole answer, or one of a proxy."""
    if error.is_permanent:
        return False
    match error:
        case NoConnection():
            return True
        case NotPartita():  # a page in place of a document, or no document at all
            return error.status == 0 or _is_absence(error.status)
        case ApiProblem():
            return _is_absence(error.status)
        case _:
            return False


def _is_absence(status: int) -> bool:
    if status == HTTPStatus.NOT_IMPLEMENTED:
        return False
    return status == HTTPStatus.TOO_MANY_REQUESTS or status >= HTTPStatus.INTERNAL_SERVER_ERROR
