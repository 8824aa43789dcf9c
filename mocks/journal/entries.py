"""A call as the data plane notes it, cheaply; its entry in the journal is made when it is read."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple
from urllib.parse import unquote_plus

import msgspec

from kernel.errors import FieldErrorDocument
from kernel.redaction import MASK
from mocks.model.calls import CallOutcome, JournalEntry

MAX_ENTRIES: Final = 1_000  # of a space
MAX_BODY_BYTES: Final = 16 * 2**10
MAX_HEADER_BYTES: Final = 16 * 2**10  # of a call; further headers are left out
MAX_QUERY_BYTES: Final = 8 * 2**10
MAX_SHOWN_CONDITIONS: Final = 10  # of the nearest example, to the caller
MAX_SHOWN: Final = 200  # characters of their values
TAG_HEADER: Final = b"x-partita-mock-tag"
Mask = Callable[[str], str]
_SECRET_NAME: Final = re.compile(
    r"authorization|cookie|secret|token|password|api[-_]?key|signature|credential", re.IGNORECASE
)
_SECRET_HEADER: Final = re.compile(  # names that say less in a body
    rf"{_SECRET_NAME.pattern}|session|jwt|csrf|access[-_]?key|passwd|sec-websocket-protocol"
    r"|(?<![a-z])auth(?![a-z])",
    re.IGNORECASE,
)
_MEMBER: Final = re.compile(r'("([^"\\]{1,64})"\s*:\s*")((?:[^"\\]|\\.)+)')  # a text in JSON
_STEP_ID: Final = re.compile(rb"[A-Za-z0-9][A-Za-z0-9._/-]{0,255}")
TAG: Final = re.compile(r"[A-Za-z0-9._/-]{1,128}", re.ASCII)


class NotedCall(NamedTuple):
    """A call as it came: raw headers, the first 16 KiB of the body, the whole query."""

    id: str
    time: float
    method: str
    path: str
    surface_id: str
    operation_id: str
    example: str
    outcome: CallOutcome
    status: int
    duration_ms: float
    headers: Iterable[tuple[bytes, bytes]]
    body: bytes
    query: bytes = b""
    state_key: str = ""
    nearest: Mapping[str, Any] | None = None
    contract_errors: Sequence[FieldErrorDocument] = ()
    fault: str = ""
    detail: str = ""


def entry_of(call: NotedCall, mask: Mask) -> JournalEntry:
    """Return the entry of a call, without credentials."""
    headers, step_id, has_all_headers = _mask_headers(call.headers, mask)
    return JournalEntry(
        id=call.id,
        time=datetime.fromtimestamp(call.time, UTC),
        method=call.method,
        path=mask(call.path),
        surface_id=call.surface_id,
        operation_id=call.operation_id,
        matched_example=call.example,
        outcome=call.outcome,
        status=call.status,
        duration_ms=round(call.duration_ms, 3),
        request_query=_mask_query(call.query[:MAX_QUERY_BYTES].decode("latin-1"), mask),
        request_headers=headers,
        request_body=_mask_body(call.body.decode(errors="replace"), mask),
        state_key=mask(call.state_key),
        step_id=step_id,
        tag=tag_of(call),
        cut=_cut_parts(call, has_all_headers=has_all_headers),
        nearest=None if call.nearest is None else _mask_nearest(call.nearest, mask),
        contract_errors=tuple(
            {"pointer": mask(each["pointer"]), "code": each["code"], "detail": each["detail"]}
            for each in call.contract_errors
        ),
        fault=call.fault,
        detail=mask(call.detail),
    )


def tag_of(call: NotedCall) -> str:
    """Return what a caller names its test in `X-Partita-Mock-Tag`, "" without a valid name."""
    given = next((value for name, value in call.headers if name == TAG_HEADER), b"")
    text = given.decode("latin-1")
    return text if TAG.fullmatch(text) else ""


def _cut_parts(call: NotedCall, *, has_all_headers: bool) -> tuple[str, ...]:
    """Return the parts of a request that an entry may not have whole."""
    is_whole = {
        "query": len(call.query) <= MAX_QUERY_BYTES,
        "header": has_all_headers,
        "body": len(call.body) < MAX_BODY_BYTES,
    }
    return tuple(part for part, whole in is_whole.items() if not whole)


def is_secret(source: str, name: str) -> bool:
    """Return whether a part of requests (`header`, `query`, …) is masked because of its name."""
    return (_SECRET_HEADER if source == "header" else _SECRET_NAME).search(name) is not None


def _mask_query(text: str, mask: Mask) -> str:
    """Mask the credentials of a query: also those that its fields are named after."""
    if not text:
        return ""
    parts = (part.partition("=") for part in text.split("&"))
    return mask(
        "&".join(f"{name}={MASK if is_secret('query', unquote_plus(name)) else value}" if equals
                 else name for name, equals, value in parts)
    )  # fmt: skip


def _mask_body(text: str, mask: Mask) -> str:
    """Mask the credentials of a body: also those that JSON members are named after."""
    return mask(_MEMBER.sub(_mask_member, text))


def _mask_member(found: re.Match[str]) -> str:
    return f"{found[1]}{MASK}" if _SECRET_NAME.search(found[2]) else found[0]


def _mask_nearest(nearest: Mapping[str, Any], mask: Mask) -> dict[str, Any]:
    """Mask what a call was nearest to: the credentials among the values that were sent."""
    shown = dict(nearest)
    if "conditions" in shown:
        shown["conditions"] = [_hide_secret(each, mask) for each in shown["conditions"]]
    return shown


def nearest_for_caller(nearest: Mapping[str, Any]) -> dict[str, object]:
    """Return what a call was nearest to, in short and for anybody: no credential, no state."""
    shown = dict(nearest)
    if "conditions" in shown:
        listed = shown["conditions"][:MAX_SHOWN_CONDITIONS]
        shown["conditions"] = [_condition_for_caller(each) for each in listed]
    return shown


def _condition_for_caller(condition: Mapping[str, Any]) -> dict[str, object]:
    source = condition["from"]
    shown = {name: each[:MAX_SHOWN] if isinstance(each, str) else each
             for name, each in condition.items()}  # fmt: skip
    if source == "state":
        shown.pop("actual", None)
    elif source == "cookie" or is_secret(source, condition["param"]):
        shown |= {name: MASK for name in ("expected", "actual") if name in shown}
    return shown


def _hide_secret(condition: Mapping[str, Any], mask: Mask) -> dict[str, Any]:
    if "actual" not in condition:
        return dict(condition)
    hides = is_secret(condition["from"], condition["param"])
    return {**condition, "actual": MASK if hides else mask(condition["actual"])}


def _mask_headers(
    headers: Iterable[tuple[bytes, bytes]], mask: Mask
) -> tuple[dict[str, str], str, bool]:
    """Return the headers, the step that calls, and whether all headers are there."""
    shown: dict[str, str] = {}
    step_id, room = "", MAX_HEADER_BYTES
    for name_bytes, value_bytes in headers:
        room -= len(name_bytes) + len(value_bytes)
        if room < 0:
            break
        name, value = name_bytes.decode("latin-1").lower(), value_bytes.decode("latin-1")
        if name == "x-partita-step-id" and _STEP_ID.fullmatch(value_bytes):
            step_id = value
        shown_value = MASK if _SECRET_HEADER.search(name) else mask(value)
        shown[name] = f"{shown[name]}, {shown_value}" if name in shown else shown_value
    return shown, step_id, room >= 0


encode_entry: Final = msgspec.json.encode
decode_entry: Final = msgspec.json.Decoder(JournalEntry).decode
