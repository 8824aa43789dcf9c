"""`expect_calls`: what the mocks of a step were called with, against what the suite expects.

Pure; an expectation is the wire form of a node's `expectCalls` (reference: control-plane 7.3).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

from apps.executions.domain.junit import Case
from apps.mocks.api import CallFilter, Condition, JournalEntry, describe_call

KIND: Final = "expect_calls"
_SHOWN_CALLS: Final = 5


class MockCall(NamedTuple):
    """A call in the journal of a mock node's space."""

    mock_id: str
    entry: JournalEntry


def case_of(expectation: Mapping[str, Any], calls: Sequence[MockCall], *, gap: str = "") -> Case:
    """Return the test result of an expectation; `calls` are those since the attempt began.

    `gap` tells why there may have been more; what these would decide is an error. A missed
    expectation says what was expected, what was seen, and which call comes nearest.
    """
    wanted = _filter_of(expectation)
    got = [
        call for call in calls
        if call.mock_id in expectation["mocks"] and wanted.concerns(call.entry)
    ]  # fmt: skip
    matching = [call for call in got if wanted.matches(call.entry)]
    least, most = expectation["atLeast"], expectation.get("atMost")
    name = f"{_what(expectation, wanted)} {_times(least, most)}"
    is_open = len(matching) < least or (most is not None and len(matching) <= most)
    invalid = [each for each in matching if each.entry.contract_errors and "valid" in expectation]
    if gap and not invalid and (is_open or "valid" in expectation):
        text = f"{name} cannot be decided: {gap}"
        return Case(name=name, classname=KIND, outcome="error", message=text, kind=KIND)
    if not invalid and least <= len(matching) and (most is None or len(matching) <= most):
        return Case(name=name, classname=KIND)
    message = f"expected {name}, seen {len(matching)}"
    if len(matching) < least:
        others = [call for call in got if call not in matching]
        text = _nearest(expectation, wanted, others)
    else:
        shown = invalid or matching
        text = "; ".join(describe_call(call.entry) for call in shown[:_SHOWN_CALLS])
        text = f"seen: {text}{', …' if len(shown) > _SHOWN_CALLS else ''}"
    if invalid:
        message += f", {len(invalid)} of them against the contract"
    return Case(
        name=name, classname=KIND, outcome="failure", message=f"{message}; {text}", kind=KIND
    )


def _filter_of(expectation: Mapping[str, Any]) -> CallFilter:
    named = ("header", expectation.get("headers", {})), ("body", expectation.get("body", {}))
    return CallFilter(
        operation_id=expectation.get("operation", ""),
        method=expectation.get("method", ""),
        path=expectation.get("path", ""),
        example=expectation.get("example", ""),
        when=tuple(
            Condition(source=source, param=param, value=value)
            for source, values in named
            for param, value in values.items()
        ),
    )


def _nearest(expectation: Mapping[str, Any], wanted: CallFilter, calls: Sequence[MockCall]) -> str:
    if not calls:
        mocks = ", ".join(expectation["mocks"])
        return f"{mocks} got no{' other' if expectation['atLeast'] > 1 else ''} call"
    found = [(wanted.compare(call.entry).reasons, call) for call in calls]
    reasons, nearest = min(found, key=lambda each: len(each[0]))
    return f"nearest call: {describe_call(nearest.entry)}: {'; '.join(reasons)}"


def _what(expectation: Mapping[str, Any], wanted: CallFilter) -> str:
    """Return the calls that are expected, in words: `psp: createOrder with body.amount "5"`."""
    meant = replace(wanted, valid=True) if "valid" in expectation else wanted
    return f"{', '.join(expectation['mocks'])}: {meant.words()}"


def _times(least: int, most: int | None) -> str:
    if most is None:
        return f"at least {_count_text(least)}"
    if least == most:
        return f"exactly {_count_text(least)}"
    return f"{least} to {_count_text(most)}" if least else f"at most {_count_text(most)}"


def _count_text(times: int) -> str:
    return "once" if times == 1 else f"{times} times"
