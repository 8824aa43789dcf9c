"""Logs for commands: their lines as they are stored."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Final

import msgspec

from apps.executions.domain.events import LineRecord
from apps.streams import api as streams

_line = msgspec.json.Decoder(LineRecord)
POLL_S: Final = 0.25  # how late a line may be without a nudge
_LINES_AT_ONCE: Final = 1000


class LogReader:
    """Reads a log from where it stopped; waits for a nudge or POLL_S."""

    def __init__(self, topic: str, *, after: int = 0) -> None:
        self.topic = topic
        self.after = after
        self._woken = threading.Event()
        self._unsubscribe = streams.listen(self.topic, self._woken.set)

    def close(self) -> None:
        self._unsubscribe()

    def batches(self) -> Iterator[list[LineRecord]]:
        """Yield the stored lines after the last one read, about a thousand at a time."""
        while chunks := streams.read(self.topic, after=self.after, limit=_LINES_AT_ONCE):
            yield [_line.decode(record) for chunk in chunks for record in chunk.records]
            self.after = chunks[-1].last

    def wait(self, seconds: float = POLL_S) -> None:
        self._woken.wait(seconds)
        self._woken.clear()
