"""Time: aware UTC datetimes, RFC 3339 with milliseconds, and display durations."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta


def now() -> datetime:
    """The current time, UTC, cut to milliseconds: what is stored is what is shown."""
    instant = datetime.now(UTC)  # noqa: TID251 - the one place that asks the system
    return instant.replace(microsecond=instant.microsecond // 1000 * 1000)


def rfc3339(instant: datetime) -> str:
    """Format an instant like `2026-01-02T03:04:05.123Z`."""
    return f"{instant.astimezone(UTC).isoformat(timespec='milliseconds')[:23]}Z"


def parse_rfc3339(text: str) -> datetime:
    """An aware datetime, in UTC.

    Raises ValueError for other text, without an offset, and for what is not a time in UTC.
    """
    instant = datetime.fromisoformat(text)
    if instant.tzinfo is None:
        raise ValueError(f"{text!r}: a time needs an offset, such as Z")
    try:
        return instant.astimezone(UTC)
    except OverflowError:
        raise ValueError(f"{text!r}: in UTC it is not a time of the years 1 to 9999") from None


def is_past(instant: datetime | None, now: datetime) -> bool:
    """Return whether the instant has come; None never does."""
    return instant is not None and instant <= now


def milliseconds(span: timedelta) -> int:
    return int(span / timedelta(milliseconds=1))


def mmss(span: timedelta) -> str:
    """`MM:SS`; minutes may exceed 59, a negative span shows as `00:00`."""
    seconds = max(0, int(span.total_seconds()))
    return f"{seconds // 60:02d}:{seconds % 60:02d}"
