"""Requests to a server that may be away for minutes, as during an upgrade."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final, TypeVar

from partita_client.errors import (
    ApiProblem,
    ClientError,
    NoConnection,
    NoTls,
    NotPartita,
    UnknownHost,
)
from partita_client.transport import pause_s

UNKNOWN_HOST_S: Final = 15.0  # the DNS of a machine that has just started may lag
_LATER: Final = (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS)
_Answer = TypeVar("_Answer")


@dataclass(slots=True, kw_only=True)
class FirstContact:
    """Whether a server has answered a command: until then, its address may be a mistake.

    A host that nobody knows is waited for `UNKNOWN_HOST_S`, and one without TLS is not. Both pass
    for a server that has answered, as it may be started anew behind a load balancer.
    """

    has_answer: bool = False
    _unknown_since: float | None = field(default=None, init=False)

    def note_failure(self, error: ClientError) -> bool:
        """Learn from what a question ended with; return whether it may pass by itself."""
        self.has_answer |= isinstance(error, ApiProblem | NotPartita)
        if not is_passing(error):
            return False
        if self.has_answer or not isinstance(error, UnknownHost | NoTls):
            self._unknown_since = None
            return True
        now = time.monotonic()
        self._unknown_since = self._unknown_since or now
        return isinstance(error, UnknownHost) and now - self._unknown_since < UNKNOWN_HOST_S


def wait_for_answer(
    ask: Callable[[], _Answer],
    *,
    until: float,
    on_away: Callable[[str], object],
    contact: FirstContact | None = None,
) -> _Answer:
    """Ask again while the server is away, until a time of `time.monotonic`; raise ClientError.

    `on_away` is told once, and why. `contact`: of a command that may not have had an answer yet.
    """
    failures, contact = 0, contact or FirstContact(has_answer=True)
    while True:
        try:
            answer = ask()
        except ClientError as error:
            if not contact.note_failure(error) or time.monotonic() >= until:
                raise
            if not failures:
                on_away(error.detail)
            time.sleep(min(pause_s(failures), max(0.0, until - time.monotonic())))
            failures += 1
        else:
            contact.has_answer = True
            return answer


def require_passing(error: ClientError) -> ClientError:
    """Return an error that may pass by itself; raise any other."""
    if not is_passing(error):
        raise error
    return error


def is_passing(error: ClientError) -> bool:
    """Return whether an error may pass by itself: no whole answer, or one of a proxy."""
    if error.is_permanent:
        return False
    match error:
        case NoConnection():
            return True
        case NotPartita():  # a page in place of a document, or no document at all
            return error.status == 0 or is_absence(error.status)
        case ApiProblem():
            return is_absence(error.status)
        case _:
            return False


def is_absence(status: int) -> bool:
    """Return whether the same request may have another answer later, with no change of it.

    Also those that proxies make up, as 520 to 527.
    """
    if status == HTTPStatus.NOT_IMPLEMENTED:
        return False
    return status in _LATER or status >= HTTPStatus.INTERNAL_SERVER_ERROR
