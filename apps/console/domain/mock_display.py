"""What pages show of mocks: explanations, calls and state, in words."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from apps.mocks.api import (
    CallOutcome,
    JournalEntry,
    StateRecord,
    requirement,
    requirement_words,
)
from kernel import clock

_OUTCOMES: Final[Mapping[str, str]] = {
    CallOutcome.EXAMPLE: "example",
    CallOutcome.FALLBACK: "fallback",
    CallOutcome.NO_MATCH: "no match",
    CallOutcome.REJECTED: "rejected",
    CallOutcome.ERROR: "error",
}
_SIGNS: Final[Mapping[str, str]] = {  # the icon and color of a status
    CallOutcome.EXAMPLE: "healthy",
    CallOutcome.FALLBACK: "skipped",
    CallOutcome.NO_MATCH: "failed",
    CallOutcome.REJECTED: "failing",
    CallOutcome.ERROR: "failed",
}
_OTHER: Final = re.compile("[^A-Z0-9]")
UNMATCHED: Final = (CallOutcome.NO_MATCH, CallOutcome.REJECTED, CallOutcome.ERROR)


@dataclass(frozen=True, slots=True, kw_only=True)
class DisplayedVerdict:
    """`sign` is the name of an icon and of the status whose color it has."""

    sign: str
    text: str
    chosen: str = ""
    more: str = ""


def verdict(explanation: Mapping[str, Any]) -> DisplayedVerdict:
    """Return in one sentence what answers an explained call."""
    failed = [each["name"] for each in explanation["constraints"] if not each["ok"]]
    if failed:
        return DisplayedVerdict(
            sign="failing", text="Refused, parameter constraints fail:", more=", ".join(failed)
        )
    if explanation["schemaErrors"]:
        return DisplayedVerdict(
            sign="failing", text="Refused: the request breaks the schema of the example"
        )
    if error := explanation.get("error"):
        return DisplayedVerdict(sign="failed", text=f"{error['code']}:", more=error["detail"])
    if chosen := explanation.get("chosen", ""):
        by = f"by dispatcher {explanation['dispatcher']}"
        return DisplayedVerdict(sign="healthy", text="Answered by example", chosen=chosen, more=by)
    text = "No example is chosen; the fallback answers:"
    return DisplayedVerdict(sign="skipped", text=text, more=str(explanation.get("fallback", "")))


def transition_words(transition: Mapping[str, Any]) -> str:
    """Return what becomes of the record."""
    if transition.get("removed"):
        return "is removed"
    fields = transition.get("fields", {})
    return "becomes " + (" ".join(f"{name}={fields[name]}" for name in sorted(fields)) or "empty")


def outcome_words(outcome: str) -> str:
    return _OUTCOMES.get(outcome, outcome)


def outcome_sign(outcome: str) -> str:
    return _SIGNS.get(outcome, "pending")


def outcomes() -> Sequence[tuple[str, str]]:
    """Return value and words of each, for a filter."""
    return [(str(outcome), words) for outcome, words in _OUTCOMES.items()]


@dataclass(frozen=True, slots=True, kw_only=True)
class Near:
    """What came nearest to an unmatched call, and how it differs."""

    text: str
    name: str = ""
    differences: Sequence[str] = ()


def call_row(call: JournalEntry) -> dict[str, object]:
    return {
        "call": call,
        "time": clock.rfc3339(call.time),
        "clock": call.time.strftime("%H:%M:%S"),
        "sign": outcome_sign(call.outcome),
        "words": outcome_words(call.outcome),
        "took": took(call.duration_ms),
        "headers": sorted(call.request_headers.items()),
        "near": near(call.nearest) if call.nearest else None,
    }


def near(nearest: Mapping[str, Any]) -> Near:
    """Return the nearest example and the conditions that fail, or the nearest operation."""
    if "example" in nearest:
        differences = [difference(each) for each in nearest.get("conditions", ())]
        return Near(text="Nearest example:", name=nearest["example"], differences=differences)
    other = "the method differs" if nearest.get("differs") == "method" else "the path differs"
    name = f"{nearest.get('method', '')} {nearest.get('path', '')}"
    return Near(text="Nearest operation:", name=name.strip(), differences=[other])


def candidates(explained: Mapping[str, Any]) -> list[Mapping[str, object]]:
    """Return the examples that were considered; their conditions also have `words`."""
    return [
        each
        | {"conditions": [one | {"words": requirement_words(one)} for one in each["conditions"]]}
        for each in explained["candidates"]
    ]


def difference(condition: Mapping[str, Any]) -> str:
    """Return `body yacht must be 1; it is missing`."""
    actual = f"it is {condition['actual']}" if "actual" in condition else "it is missing"
    return f"{requirement(condition, str)}; {actual}"


def unmatched_rows(calls: Sequence[JournalEntry]) -> list[dict[str, object]]:
    """Return a row for each way in which calls were not answered, with their number as `times`."""
    alike: dict[tuple[object, ...], list[JournalEntry]] = {}
    for call in calls:
        if call.outcome in UNMATCHED:
            key = (call.method, call.path, call.surface_id, call.status, str(call.nearest))
            alike.setdefault(key, []).append(call)
    return [call_row(each[0]) | {"times": len(each)} for each in alike.values()]


def record_row(record: StateRecord) -> dict[str, object]:
    return {
        "record": record,
        "fields": sorted(record.fields.items()),
        "time": clock.rfc3339(record.updated_at),
        "clock": record.updated_at.strftime("%H:%M:%S"),
    }


def address_variable(key: str, prefix: str) -> str:
    """Return the variable of a key of `mockUrls` (reference: control-plane 13.2)."""
    return f"{prefix}_MOCK_{_OTHER.sub('_', key.upper())}_URL"


def took(duration_ms: float) -> str:
    """Return `0.4 ms`, `25 ms` or `1.2 s`."""
    if duration_ms < 10:  # noqa: PLR2004
        return f"{duration_ms:.1f} ms"
    return f"{duration_ms:.0f} ms" if duration_ms < 1_000 else f"{duration_ms / 1_000:.1f} s"  # noqa: PLR2004
