"""What pages show of mocks: explanations, calls and state, in words."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from apps.mocks.api import CallOutcome, JournalEntry, StateRecord
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
UNMATCHED: Final = (CallOutcome.NO_MATCH, CallOutcome.REJECTED, CallOutcome.ERROR)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """`sign` is the name of an icon and of the status whose color it has."""

    sign: str
    text: str
    chosen: str = ""
    more: str = ""


def verdict(explanation: Mapping[str, Any]) -> Verdict:
    """Return in one sentence what answers an explained call."""
    failed = [each for each in explanation["constraints"] if not each["ok"]]
    if failed:
        names = ", ".join(each["name"] for each in failed)
        return Verdict(sign="failing", text="Refused: parameter constraints fail", more=names)
    chosen = explanation.get("chosen", "")
    if chosen and explanation["schemaErrors"]:
        return Verdict(
            sign="failing", text="Refused: the request breaks the schema of", chosen=chosen
        )
    if chosen:
        by = f"by dispatcher {explanation['dispatcher']}"
        return Verdict(sign="healthy", text="Answered by example", chosen=chosen, more=by)
    if fallback := explanation.get("fallback"):
        return Verdict(
            sign="skipped", text="No example matches; the fallback answers", more=mode(fallback)
        )
    return Verdict(sign="failed", text="No example matches, and there is no fallback: 404")


def mode(fallback: object) -> str:
    return str(fallback.get("mode", "")) if isinstance(fallback, Mapping) else str(fallback)


def as_text(value: object) -> str:
    """Return a text as it is, anything else as indented JSON."""
    return value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False)


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
    """Return what the journal keeps of the nearest example or operation, in words."""
    differences = [difference(each) for each in nearest.get("differences", ())]
    if name := nearest.get("example", ""):
        return Near(text="Nearest example:", name=str(name), differences=differences)
    method, path = nearest.get("method", ""), nearest.get("path", "")
    name = f"{method} {path}".strip() or str(nearest.get("operationId", ""))
    return Near(text="Nearest operation:", name=name, differences=differences)


def difference(found: Mapping[str, Any]) -> str:
    """Return `body yacht must be 1; it is missing`."""
    what = " ".join(str(found[key]) for key in ("from", "param") if found.get(key))
    actual = f"it is {found['actual']}" if "actual" in found else "it is missing"
    return f"{what} must be {found.get('expected', '')}; {actual}"


def record_row(record: StateRecord) -> dict[str, object]:
    return {
        "record": record,
        "fields": sorted(record.fields.items()),
        "time": clock.rfc3339(record.updated_at),
        "clock": record.updated_at.strftime("%H:%M:%S"),
    }


def took(duration_ms: float) -> str:
    """Return `0.4 ms`, `25 ms` or `1.2 s`."""
    if duration_ms < 10:  # noqa: PLR2004
        return f"{duration_ms:.1f} ms"
    return f"{duration_ms:.0f} ms" if duration_ms < 1_000 else f"{duration_ms / 1_000:.1f} s"  # noqa: PLR2004
