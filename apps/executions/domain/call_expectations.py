"""`expect_calls`: what the mocks of a step were called with, against what the suite expects.

Pure; an expectation is the wire form of a node's `expectCalls` (reference: control-plane 7.3).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from apps.executions.domain.junit import Case
from apps.mocks.api import CALLBACK, JournalEntry, parse_body, parse_path, text_of_value, value_at

KIND: Final = "expect_calls"
_SHOWN_CALLS: Final = 5
_SHOWN_TEXT: Final = 200
_SEGMENT: Final = re.compile(r"\\{[^{}/]*\\}")  # a parameter, in an escaped template


class MockCall(NamedTuple):
    """A call in the journal of a mock node's space."""

    mock_id: str
    entry: JournalEntry


def case_of(expectation: Mapping[str, Any], calls: Sequence[MockCall], *, gap: str = "") -> Case:
    """Return the test result of an expectation; `calls` are those since the attempt began.

    `gap` tells why there may have been more; what these would decide is an error. A missed
    expectation says what was expected, what was seen, and which call comes nearest.
    """
    method = expectation.get("method")
    wanted = [
        call for call in calls
        if call.mock_id in expectation["mocks"]
        and (call.entry.method != CALLBACK or method == CALLBACK)  # what the mock itself sent
    ]  # fmt: skip
    matching = [call for call in wanted if not any(_differences(expectation, call.entry))]
    least, most = expectation["atLeast"], expectation.get("atMost")
    name = f"{_what(expectation)} {_times(least, most)}"
    is_open = len(matching) < least or (most is not None and len(matching) <= most)
    invalid = [each for each in matching if each.entry.contract_errors and "valid" in expectation]
    if gap and not invalid and (is_open or "valid" in expectation):
        text = f"{name} cannot be decided: {gap}"
        return Case(name=name, classname=KIND, outcome="error", message=text, kind=KIND)
    if not invalid and least <= len(matching) and (most is None or len(matching) <= most):
        return Case(name=name, classname=KIND)
    message = f"expected {name}, seen {len(matching)}"
    if len(matching) < least:
        others = [call for call in wanted if call not in matching]
        text = _nearest(expectation, others)
    else:
        shown = invalid or matching
        text = "; ".join(_describe_call(call.entry) for call in shown[:_SHOWN_CALLS])
        text = f"seen: {text}{', …' if len(shown) > _SHOWN_CALLS else ''}"
    if invalid:
        message += f", {len(invalid)} of them against the contract"
    return Case(
        name=name, classname=KIND, outcome="failure", message=f"{message}; {text}", kind=KIND
    )


def _differences(expectation: Mapping[str, Any], entry: JournalEntry) -> Iterator[str]:
    """Yield how a call differs from what is expected."""
    operation = expectation.get("operation")
    if operation and operation != entry.operation_id:
        known = f"operation is {_quote(entry.operation_id)}, not {_quote(operation)}"
        yield known if entry.operation_id else "it matches no operation"
    if expectation.get("method", entry.method) != entry.method:
        yield f"method is {entry.method}, not {expectation['method']}"
    by_id = f"/{entry.operation_id}"  # of gRPC, whose calls have the path /package.Service/Method
    path = expectation.get("path", by_id)
    if path != by_id and not _has_path(path, entry.path):
        yield f"path is {entry.path}, not {expectation['path']}"
    example = expectation.get("example")
    if example and example != entry.matched_example:
        yield f"answered by {_answer(entry)}, not by example {_quote(example)}"
    for name, value in expectation.get("headers", {}).items():
        found = entry.request_headers.get(name.lower())
        if found != value:
            yield f"header {name} is {_quote(found)}, not {_quote(value)}"
    if "body" in expectation:
        yield from _body_differences(expectation["body"], entry)


def _body_differences(wanted: Mapping[str, str], entry: JournalEntry) -> Iterator[str]:
    content_type = entry.request_headers.get("content-type", "")
    body = parse_body(entry.request_body.encode(), content_type)
    for path, value in wanted.items():
        steps = parse_path(path)
        found = None if steps is None else text_of_value(value_at(body, steps))
        if found != value:
            yield f"body.{path} is {_quote(found)}, not {_quote(value)}"


def _has_path(template: str, path: str) -> bool:
    pattern = _SEGMENT.sub("[^/]+", re.escape(template))
    return re.fullmatch(pattern, path.partition("?")[0]) is not None


def _nearest(expectation: Mapping[str, Any], calls: Sequence[MockCall]) -> str:
    if not calls:
        mocks = ", ".join(expectation["mocks"])
        return f"{mocks} got no{' other' if expectation['atLeast'] > 1 else ''} call"
    found = [(list(_differences(expectation, call.entry)), call) for call in calls]
    differences, nearest = min(found, key=lambda each: len(each[0]))
    return f"nearest call: {_describe_call(nearest.entry)}: {'; '.join(differences)}"


def _describe_call(entry: JournalEntry) -> str:
    errors = [f"{each['pointer']} {each['detail']}" for each in entry.contract_errors[:1]]
    more = f" and {len(entry.contract_errors) - 1} more" if len(entry.contract_errors) > 1 else ""
    details = ", ".join([_answer(entry), *errors]) + more
    return f"{entry.method} {entry.path[:_SHOWN_TEXT]} → {entry.status} ({details})"


def _answer(entry: JournalEntry) -> str:
    if entry.matched_example:
        return f"example {_quote(entry.matched_example)}"
    return str(entry.outcome).replace("_", " ")


def _what(expectation: Mapping[str, Any]) -> str:
    """Return the calls that are expected, in words: `psp: createOrder with body.amount "5"`."""
    request = " ".join(expectation[key] for key in ("method", "path") if key in expectation)
    what = " ".join(filter(None, [expectation.get("operation", ""), request])) or "any call"
    details = [f"example {_quote(expectation['example'])}"] if "example" in expectation else []
    details += ["calls that fit the contract"] if "valid" in expectation else []
    for name, value in expectation.get("headers", {}).items():
        details.append(f"header {name} {_quote(value)}")
    for path, value in expectation.get("body", {}).items():
        details.append(f"body.{path} {_quote(value)}")
    with_details = f" with {', '.join(details)}" if details else ""
    return f"{', '.join(expectation['mocks'])}: {what}{with_details}"


def _times(least: int, most: int | None) -> str:
    if most is None:
        return f"at least {_count_text(least)}"
    if least == most:
        return f"exactly {_count_text(least)}"
    return f"{least} to {_count_text(most)}" if least else f"at most {_count_text(most)}"


def _count_text(times: int) -> str:
    return "once" if times == 1 else f"{times} times"


def _quote(text: str | None) -> str:
    return "missing" if text is None else f'"{text[:_SHOWN_TEXT]}"'
