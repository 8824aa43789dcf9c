"""Time: aware UTC datetimes, RFC 3339 with milliseconds, and display durations."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta


def now() -> datetime:
    """The current time, UTC, cut to milliseconds: what is stored is what is shown."""
    instant = datetime.now(UTC)  # noqa: TID251 - the one place that asks the system
    return instant.replace(microsecond=instant.microsecond // 1000 * 1000)


def rfc3339(instant: datetime) -> str:
    """As in `2026-01-02T03:04:05.123Z`."""
    utc = instant.astimezone(UTC)
    return f"{utc:%Y-%m-%dT%H:%M:%S}.{utc.microsecond // 1000:03d}Z"


def parse_rfc3339(text: str) -> datetime:
    """An aware datetime; raises ValueError for other text and for times without an offset."""
    instant = datetime.fromisoformat(text)
    if instant.tzinfo is None:
        raise ValueError(f"{text!r}: a time needs an offset, such as Z")
    return instant.astimezone(UTC)


def milliseconds(span: timedelta) -> int:
    return int(span / timedelta(milliseconds=1))


def mmss(span: timedelta) -> str:
    """`MM:SS`; minutes may exceed 59, a negative span shows as `00:00`."""
    seconds = max(0, int(span.total_seconds()))
    return f"{seconds // 60:02d}:{seconds % 60:02d}"
