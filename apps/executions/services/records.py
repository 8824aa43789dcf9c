"""Events and log lines as the bytes that streams keep (reference: control-plane 11.2)."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec

from apps.executions.domain.reports import LogLine
from kernel.clock import mmss


class _Line(msgspec.Struct, omit_defaults=True):
    source: str
    timestamp: str
    time: str
    level: str
    kind: str
    text: str
    attempt: int | None = None
    continued: bool = False


class _Event(msgspec.Struct, omit_defaults=True):
    id: str
    source: str
    timestamp: str
    time: str
    text: str
    status: str
    level: str
    reason: str | None = None
    attempt: int | None = None


_SKEW: Final = timedelta(days=1)
_encode: Final = msgspec.json.Encoder().encode


def event_record(
    event_id: str,
    source: str,
    *,
    at: tuple[datetime, datetime],
    text: str,
    facts: tuple[str, str, str, int],
) -> tuple[bytes, bytes]:
    """The event and its mirror line.

    `at`: (start of the run, now); `facts`: status, level, reason, attempt (0: none).
    """
    timestamp, time = _stamps(*at)
    status, level, reason, attempt = facts
    event = _Event(
        event_id, source, timestamp, time, text, status, level, reason or None, attempt or None
    )
    mirror = _Line(source, timestamp, time, level, "", text, attempt or None)
    return _encode(event), _encode(mirror)


def line_records(
    source: str, lines: Iterable[LogLine], *, at: tuple[datetime, datetime], attempt: int
) -> list[bytes]:
    """One record per line; `timestamp` comes from the line's own time.

    `at`: (start of the run, now). A line of tomorrow or later has the time of its arrival: the
    clock that stamped it is wrong.
    """
    records = []
    started_at, now = at
    seen, timestamp, time = started_at, *_stamps(started_at, started_at)
    for line in lines:
        if line.time is not seen and line.time != seen:  # a burst of lines has one time
            seen = line.time
            believed = seen if seen < now + _SKEW else now
            timestamp, time = _stamps(started_at, believed)
        records.append(
            _encode(
                _Line(
                    source,
                    timestamp,
                    time,
                    line.level,
                    line.kind,
                    line.text,
                    attempt or None,
                    line.continued,
                )
            )
        )
    return records


def _stamps(started_at: datetime, instant: datetime) -> tuple[str, str]:
    utc = instant if instant.tzinfo is UTC else instant.astimezone(UTC)
    return mmss(utc - started_at), f"{utc.isoformat(timespec='milliseconds')[:23]}Z"
