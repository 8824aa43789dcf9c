"""State and journal of spaces on the wire (reference: control-plane 18.1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NotRequired, TypedDict

from apps.mocks.domain.calls import JournalEntry
from apps.mocks.domain.ports import Counter, StateRecord
from kernel import clock


class RecordDocument(TypedDict):
    key: str
    surfaceId: str
    fields: Mapping[str, str]
    version: int
    updatedAt: str


class CounterDocument(TypedDict):
    surfaceId: str
    operationId: str
    value: int


class CallDocument(TypedDict):
    """A call; `nearest` is there for an unmatched one where something came near."""

    id: str
    time: str
    method: str
    path: str
    surfaceId: str
    operationId: NotRequired[str]
    matchedExample: NotRequired[str]
    outcome: str
    status: int
    durationMs: int
    requestHeaders: Mapping[str, str]
    requestBody: NotRequired[str]
    stateKey: NotRequired[str]
    stepId: NotRequired[str]
    nearest: NotRequired[Mapping[str, Any]]


def record_document(record: StateRecord) -> RecordDocument:
    return {
        "key": record.key,
        "surfaceId": record.surface_id,
        "fields": dict(record.fields),
        "version": record.version,
        "updatedAt": clock.rfc3339(record.updated_at),
    }


def counter_document(counter: Counter) -> CounterDocument:
    return {
        "surfaceId": counter.surface_id,
        "operationId": counter.operation_id,
        "value": counter.value,
    }


def call_document(entry: JournalEntry) -> CallDocument:
    document: CallDocument = {
        "id": entry.id,
        "time": clock.rfc3339(entry.time),
        "method": entry.method,
        "path": entry.path,
        "surfaceId": entry.surface_id,
        "outcome": str(entry.outcome),
        "status": entry.status,
        "durationMs": round(entry.duration_ms),
        "requestHeaders": dict(entry.request_headers),
    }
    if entry.operation_id:
        document["operationId"] = entry.operation_id
    if entry.matched_example:
        document["matchedExample"] = entry.matched_example
    if entry.request_body:
        document["requestBody"] = entry.request_body
    if entry.state_key:
        document["stateKey"] = entry.state_key
    if entry.step_id:
        document["stepId"] = entry.step_id
    if entry.nearest is not None:
        document["nearest"] = entry.nearest
    return document
