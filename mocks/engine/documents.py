"""State, journal and explanations of spaces on the wire (reference: control-plane 18.1)."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Final, NotRequired, TypedDict

from kernel import clock
from kernel.errors import FieldErrorDocument
from kernel.wire_types import Count, Instant, Ordinal, one_of
from mocks.model.calls import CallOutcome, JournalEntry
from mocks.model.ports import Counter, StateRecord
from surfaces.behaviors import Delay, MockFault
from surfaces.documents import ConditionTerms, DelayDocument, FaultDocument, wire_of


class RecordDocument(TypedDict):
    key: str
    surfaceId: str
    fields: Mapping[str, str]
    version: Ordinal
    updatedAt: Instant


class CounterDocument(TypedDict):
    """How often an operation of dispatcher `sequence` or `random` has drawn since the reset."""

    surfaceId: str
    operationId: str
    value: Count


class CallDocument(TypedDict):
    """A call; `nearest` is there for an unmatched one where something came near.

    `status` is 0 where no status went out, and of a callback (method `CALLBACK`) without an answer.
    """

    id: str
    time: Instant
    method: str
    path: str
    surfaceId: str
    operationId: NotRequired[str]
    matchedExample: NotRequired[str]
    outcome: Annotated[str, one_of(CallOutcome)]
    status: Count
    durationMs: Count
    requestQuery: NotRequired[str]
    requestHeaders: Mapping[str, str]
    requestBody: NotRequired[str]
    stateKey: NotRequired[str]
    stepId: NotRequired[str]
    tag: NotRequired[str]
    cut: NotRequired[Annotated[list[str], "parts that are not whole: `query`, `header`, `body`"]]
    nearest: NotRequired[
        Annotated[Mapping[str, Any], "of an unmatched call: what came nearest and what differs"]
    ]
    contractErrors: NotRequired[
        Annotated[list[FieldErrorDocument], "how call and answer break the contract"]
    ]
    fault: NotRequired[Annotated[str, "how the answer was broken on purpose"]]
    detail: NotRequired[Annotated[str, "why a callback has no answer"]]


class ExplainedConstraint(TypedDict):
    name: str
    source: str
    value: NotRequired[str]
    ok: bool
    detail: NotRequired[str]


class ExplainedCondition(ConditionTerms):
    """A condition of an example; `actual` is the value that is there, if any.

    A query may find several: then it is the JSON of the first ten.
    """

    expected: str
    actual: NotRequired[str]
    ok: bool


class ExplainedCandidate(TypedDict):
    """An example in the order in which it is tried."""

    name: str
    order: Count
    conditions: list[ExplainedCondition]
    matched: bool


class ExplainedTransition(TypedDict):
    """What becomes of a record: its `fields`, or it is removed."""

    key: str
    onExample: NotRequired[str]
    fields: NotRequired[dict[str, str]]
    removed: NotRequired[bool]


class ExplainedCallback(TypedDict):
    """A call that would follow the answer, or why it cannot be made."""

    method: NotRequired[str]
    url: NotRequired[str]
    detail: NotRequired[str]


class ExplainedResponse(TypedDict):
    """The answer; one that is not text is in `bodyBase64`, too. `delay` is one that is drawn."""

    status: Count
    mediaType: str
    headers: dict[str, list[str]]
    body: str
    bodyBase64: NotRequired[str]
    delayMillis: Count
    delay: NotRequired[DelayDocument]
    fault: NotRequired[FaultDocument]
    callbacks: NotRequired[list[ExplainedCallback]]
    grpcStatus: NotRequired[int]


class ExplainedError(TypedDict):
    """Why Partita itself answers; `nearest` is what an unmatched call came nearest to."""

    code: str
    detail: str
    errors: NotRequired[list[FieldErrorDocument]]
    nearest: NotRequired[dict[str, Any]]


class ExplainedOutcome(TypedDict):
    response: NotRequired[ExplainedResponse]
    error: NotRequired[ExplainedError]
    proxyUrl: NotRequired[str]


class Explanation(ExplainedOutcome):
    """What would answer a call, and why. One of `response`, `error` and `proxyUrl` is there."""

    operationId: str
    constraints: list[ExplainedConstraint]
    candidates: list[ExplainedCandidate]
    dispatcher: str
    schemaErrors: list[FieldErrorDocument]
    contractErrors: NotRequired[list[FieldErrorDocument]]
    chosen: NotRequired[str]
    fallback: NotRequired[str]
    stateKey: NotRequired[str]
    state: NotRequired[dict[str, str]]
    transition: NotRequired[ExplainedTransition]


def requirement(condition: Mapping[str, Any], show: Callable[[str], str] = repr) -> str:
    """Return `query q must be 'x'` of an explained condition, `header x must not match 'a.*'`."""
    text = f"{condition['from']} {condition['param']} {requirement_words(condition)}"
    has_value = condition.get("operator") != "absent"
    return f"{text} {show(condition['expected'])}" if has_value else text


def requirement_words(condition: Mapping[str, Any]) -> str:
    """Return what stands between place and value: `must be`, `must not match`, `must be absent`."""
    operator, is_opposite = condition.get("operator", "equals"), bool(condition.get("not"))
    if operator == "absent":
        is_there = (condition["expected"] == "true") == is_opposite
        return "must be there" if is_there else "must be absent"
    return f"must{' not' if is_opposite else ''} {_WORDS[operator]}"


def contract_words(errors: Sequence[FieldErrorDocument], *, at_most: int = 1) -> str:
    """Return how a call breaks its contract, "" if it does not: `/query/limit: must be ≥ 1`."""
    listed = "; ".join(f"{each['pointer']}: {each['detail']}" for each in errors[:at_most])
    more = f" (and {len(errors) - at_most} more)" if len(errors) > at_most else ""
    return f"{listed}{more}"


_WORDS: Final[Mapping[str, str]] = {
    "equals": "be", "matches": "match", "contains": "contain", "in": "be one of",
    "gt": "be greater than", "gte": "be at least", "lt": "be less than", "lte": "be at most",
}  # fmt: skip


def encoded_body(body: bytes) -> str:
    """Return a body that is not text in base64, "" for a text."""
    try:
        body.decode()
    except UnicodeDecodeError:
        return b64encode(body).decode()
    return ""


def fault_document(fault: MockFault) -> FaultDocument:
    document: FaultDocument = wire_of(fault, FaultDocument)
    return document


def delay_document(delay: Delay) -> DelayDocument:
    document: DelayDocument = wire_of(delay, DelayDocument)
    return document


def record_document(record: StateRecord) -> RecordDocument:
    document: RecordDocument = wire_of(record, RecordDocument)
    return {**document, "updatedAt": clock.rfc3339(record.updated_at)}


def counter_document(counter: Counter) -> CounterDocument:
    document: CounterDocument = wire_of(counter, CounterDocument)
    return document


def call_document(entry: JournalEntry) -> CallDocument:
    document: CallDocument = wire_of(entry, CallDocument)
    return {
        **document,
        "time": clock.rfc3339(entry.time),
        "durationMs": round(entry.duration_ms),
    }
