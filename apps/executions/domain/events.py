"""Events and log lines of a run: their topics, ids and causes, and their bytes in the streams.

(reference: control-plane 11.2)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated, Final, NotRequired, TypedDict

import msgspec

from apps.executions.domain.states import ExecutionStatus, StepStatus
from kernel.agent_protocol import LogLine
from kernel.clock import mmss
from kernel.wire_types import Count, Instant, one_of

OVERVIEW_NUDGE: Final = "overview"
WORK_NUDGE: Final = "work"  # every claim that waits looks for steps
KINDS: Final = ("", "system", "output", "metric", "user")  # of a line
LEVELS: Final = ("debug", "info", "warn", "error")
_UNBOUND: Final = "work-unbound"
RUN_SOURCE: Final = "execution"
# Events that may come several times in one attempt; all others come once by the state machine.
REPEATABLE: Final = frozenset(
    {"adopted", "waiting", "image-pull", "artifacts", "reset", "reset-mocks"}
)
RUN_EVENT_STATUS: Final = {
    ExecutionStatus.QUEUED: "pending",
    ExecutionStatus.BOOTING: "running",
    ExecutionStatus.CANCELING: "running",
    ExecutionStatus.HEALTHY: "healthy",
    ExecutionStatus.FAILED: "failed",
    ExecutionStatus.CANCELED: "canceled",
}
_SKEW: Final = timedelta(days=1)
_encode: Final = msgspec.json.Encoder().encode


class EventRecord(msgspec.Struct, omit_defaults=True):
    """An event as on the wire; `timestamp` and `time` are those of `timestamps`."""

    id: str
    source: Annotated[str, "step id, or `execution`"]
    timestamp: Annotated[str, "MM:SS"]
    time: Instant
    text: str
    status: Annotated[str, one_of(StepStatus)]
    level: Annotated[str, one_of(("info", "warn", "error"))]
    reason: str | None = None
    attempt: Count | None = None


class LineRecord(msgspec.Struct, omit_defaults=True):
    source: str
    timestamp: Annotated[str, "MM:SS"]
    time: Instant
    level: Annotated[str, one_of(LEVELS)]
    kind: Annotated[str, one_of(KINDS)]
    text: str
    attempt: Count | None = None
    continued: bool = False


class CauseLink(TypedDict):
    """A step that failed, as a link of the cause of another."""

    stepId: str
    reason: str
    exitCode: NotRequired[int]


def events_topic(run_id: str) -> str:
    return f"execution-events:{run_id}"


def logs_topic(run_id: str) -> str:
    return f"execution-logs:{run_id}"


def work_nudge(agent_id: str) -> str:
    """Return the nudge for steps of the runs that are bound to this supervisor.

    Empty: of runs that are not bound yet. One claim of those alike needs to look for them.
    """
    return f"{WORK_NUDGE}:{agent_id}" if agent_id else _UNBOUND


def jobs_nudge(agent_id: str) -> str:
    """Return the nudge that wakes a supervisor when one of its jobs must stop."""
    return f"jobs:{agent_id}"


def probes_nudge(run_id: str) -> str:
    """Return the nudge for new answers of the probes of a run's services."""
    return f"probes:{run_id}"


def event_id(source: str, what: str, *, attempt: int = 0, nth: int = 1) -> str:
    """Return `api-running`, `api-running-2` in attempt 2, `api-running-2.2` repeated there.

    Ids are unique in a run, and the same for the same fact.
    """
    named = f"{source}-{what}"
    if attempt > 1:
        named += f"-{attempt}"
    return named if nth == 1 else f"{named}.{nth}"


def event_name(identifier: str, source: str, *, attempt: int) -> str:
    """Return what happened according to an id of `event_id`, such as `running`."""
    named = identifier.removeprefix(f"{source}-").partition(".")[0]
    return named.removesuffix(f"-{attempt}") if attempt > 1 else named


def cause_chain(
    step_id: str, *, reason: str, exit_code: int | None, cause: Sequence[CauseLink]
) -> list[CauseLink]:
    """Return the cause of a dependent of this step: the step itself, then its own causes."""
    link: CauseLink = {"stepId": step_id, "reason": reason}
    if exit_code is not None:
        link["exitCode"] = exit_code
    return [link, *cause]


def in_words(chain: Sequence[CauseLink]) -> str:
    """Return the chain for people: `api: exit_nonzero (exit code 3), after db: not_ready`."""
    return ", after ".join(
        f"{link['stepId']}: {link['reason']}"
        + (f" (exit code {link['exitCode']})" if "exitCode" in link else "")
        for link in chain
    )


def timestamps(started_at: datetime, instant: datetime) -> tuple[str, str]:
    """Return the time since the start of the run as MM:SS, and the time in RFC 3339."""
    utc = instant if instant.tzinfo is UTC else instant.astimezone(UTC)
    return mmss(utc - started_at), f"{utc.isoformat(timespec='milliseconds')[:23]}Z"


def event_records(event: EventRecord) -> tuple[bytes, bytes]:
    """Return the record of the event and the record of the log line that repeats it."""
    line = LineRecord(
        event.source, event.timestamp, event.time, event.level, "", event.text, event.attempt
    )
    return _encode(event), _encode(line)


def line_records(
    source: str,
    lines: Iterable[LogLine],
    *,
    started_at: datetime,
    now: datetime,
    attempt: int,
) -> list[bytes]:
    """Return one record per line; `attempt` 0 is left out.

    A line has its own time. If that is a day or more ahead, the clock that stamped it is wrong,
    and the line gets the time of its arrival.
    """
    records = []
    last, timestamp, time = started_at, *timestamps(started_at, started_at)
    for line in lines:
        if line.time is not last and line.time != last:  # a burst of lines has one time
            last = line.time
            timestamp, time = timestamps(started_at, last if last < now + _SKEW else now)
        record = LineRecord(
            source,
            timestamp,
            time,
            line.level,
            line.kind,
            line.text,
            attempt or None,
            line.continued,
        )
        records.append(_encode(record))
    return records


def split_output(
    lines: Sequence[LogLine], *, logs: bool, is_full: bool
) -> tuple[Sequence[LogLine], int]:
    """Return the lines to keep, and how many of the others count as dropped.

    `logs` False, as a profile says, keeps system lines alone and counts none; a log that is full
    takes no more output and metrics.
    """
    if not logs:
        return [line for line in lines if line.kind == "system"], 0
    if not is_full:
        return lines, 0
    kept = [line for line in lines if line.kind not in ("output", "metric")]
    return kept, len(lines) - len(kept)
