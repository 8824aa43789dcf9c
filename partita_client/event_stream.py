"""Server-sent events that go on where they were cut (reference: control-plane 12)."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from partita_client.errors import (
    ApiProblem,
    NoConnection,
    NotPartita,
    WaitTimeout,
)
from partita_client.patience import FirstContact
from partita_client.transport import HttpTransport, pause_s

IDLE_S: Final = 45.0  # the server pings every 15 s
AWAY_S: Final = 300.0  # a server that is away for longer is given up
_LINE_MAX: Final = 4 * 2**20
_FRAME_MAX: Final = 4 * 2**20
_FAILURES_BEFORE_A_WORD: Final = 2
_CONNECTED: Final = "connected"  # the first comment: it says nothing of what follows


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamFrame:
    """`kind` is empty for a record, else `gap` or `end`.

    `comment`: the words of a comment, which has no data; None for all else.
    """

    kind: str = ""
    data: Any = None
    comment: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumingStream:
    """A stream whose records have dense ids: none is lost, and none comes twice.

    `on_away` is told when the server has been away for more than a moment.
    """

    transport: HttpTransport
    path: str
    after: int = 0
    sources: Sequence[str] = ()
    deadline: float | None = None  # of time.monotonic
    away_s: float = AWAY_S
    on_away: Callable[[str], None] = lambda _words: None

    def frames(self) -> Iterator[StreamFrame]:
        """Yield records and gaps in order, and `end` last; raise ClientError, WaitTimeout."""
        last, failures, away_since = self.after, 0, 0.0
        contact = FirstContact(has_answer=self.transport.has_answered)
        while True:
            reason: Exception = NoConnection(f"the server ended the stream {self.path}")
            try:
                for frame in self._read_once(last):
                    failures = failures if frame.comment == _CONNECTED else 0
                    if (number := _last_id(frame, last)) > last:
                        last = number  # what came before the cut may be sent again
                        yield frame
                    elif frame.kind == "end":
                        yield frame
                        return
            except (ApiProblem, NoConnection, NotPartita) as error:
                contact.has_answer |= self.transport.has_answered
                if not contact.note_failure(error):
                    raise
                reason = error
            away_since = away_since if failures else time.monotonic()
            failures += 1
            self._rest(failures, away_since, reason)

    def _rest(self, failures: int, away_since: float, reason: Exception) -> None:
        """Wait for the server; raise what happened when it is away for too long."""
        now = time.monotonic()
        self._check_time(now)
        if now - away_since > self.away_s:
            raise reason
        if failures == _FAILURES_BEFORE_A_WORD:
            self.on_away(str(reason))
        wanted = pause_s(failures - 1)
        left = wanted if self.deadline is None else max(0.0, self.deadline - now)
        time.sleep(min(wanted, left))

    def _check_time(self, now: float) -> None:
        if self.deadline is not None and now >= self.deadline:
            raise WaitTimeout("the time to wait is over; the run goes on")

    def _read_once(self, after: int) -> Iterator[StreamFrame]:
        query: dict[str, object] = {"since": after}
        if self.sources:
            query["source"] = list(self.sources)
        idle_s = IDLE_S
        if self.deadline is not None:
            idle_s = max(0.05, min(IDLE_S, self.deadline - time.monotonic()))
        accept = {"Accept": "text/event-stream", "Last-Event-ID": str(after)}
        with self.transport.stream(self.path, query=query, headers=accept, idle_s=idle_s) as answer:
            for frame in read_frames(answer):
                yield frame
                self._check_time(time.monotonic())


def _last_id(frame: StreamFrame, last: int) -> int:
    """Return the id of a record, the last one of a gap, and for all else what it was before."""
    if frame.comment is not None or frame.kind not in ("", "gap"):
        return last
    try:
        return int(frame.data["to" if frame.kind == "gap" else "id"])
    except (LookupError, TypeError, ValueError):
        raise NotPartita("the stream holds a record without an id") from None


def read_frames(answer: http.client.HTTPResponse) -> Iterator[StreamFrame]:
    """Yield each whole frame and each comment; what a cut left unfinished is dropped."""
    kind, data, size = "", list[str](), 0
    while line := answer.readline(_LINE_MAX + 1):
        if len(line) > _LINE_MAX:
            raise NotPartita("a line of the stream is larger than 4 MiB")
        if not line.endswith(b"\n"):
            return
        text = line.decode("utf-8", "replace").rstrip("\r\n")
        if not text:
            if data:
                yield StreamFrame(kind=kind, data=_document("\n".join(data)))
            kind, data, size = "", [], 0
        elif text.startswith(":"):
            yield StreamFrame(comment=text[1:].strip())
        else:
            name, _, value = text.partition(":")
            value = value.removeprefix(" ")
            kind = value if name == "event" else kind
            data += [value] if name == "data" else []
            size += len(line)
            if size > _FRAME_MAX:
                raise NotPartita("a record of the stream is larger than 4 MiB")


def _document(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        raise NotPartita("the stream holds a record that is not JSON") from None
