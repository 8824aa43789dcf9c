"""Answers of mocks as statuses of gRPC, with details that clients can read."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import grpc
from google.rpc import error_details_pb2, status_pb2

from kernel.errors import PlatformError
from kernel.problems import PROBLEMS
from mocks.model.calls import MockAnswer

SentMetadata = tuple[tuple[str, str | bytes], ...]
DOMAIN: Final = "partita"
MAX_MESSAGE: Final = 1_000
MAX_DETAILS: Final = 20
_BY_NUMBER: Final[Mapping[int, grpc.StatusCode]] = {
    status.value[0]: status for status in grpc.StatusCode
}
_OF_HTTP: Final[Mapping[int, int]] = {
    400: 3, 401: 16, 403: 7, 404: 5, 405: 12, 408: 4, 409: 10, 412: 9, 413: 8, 429: 8, 499: 1,
    500: 13, 501: 12, 502: 14, 503: 14, 504: 4,
}  # fmt: skip
_OF_CODES: Final[Mapping[str, int]] = {
    "operation_not_found": 12, "mock_metadata_invalid": 13, "mock_script_failed": 13,
    "mock_proxy_refused": 9, "mock_proxy_failed": 14, "queue_full": 8, "mock_secret_required": 16,
}  # fmt: skip
_UNKNOWN: Final = 2
_SUCCESSES: Final = range(200, 300)
_KEY: Final = re.compile(r"[a-z0-9_.-]{1,200}")
_RESERVED: Final = re.compile(
    r"grpc-.*|x-partita-.*|content-type|content-length|te|connection|host"
)
_UNPRINTABLE: Final = re.compile(r"[^\x20-\x7e]")


def status_of(answer: MockAnswer) -> grpc.StatusCode:
    """Return the status of an answer: its own, or what its HTTP status stands for."""
    if answer.error_code:
        number = _OF_CODES.get(answer.error_code, _OF_HTTP.get(answer.status, _UNKNOWN))
    elif answer.grpc_status is not None:
        number = answer.grpc_status
    else:
        number = 0 if answer.status in _SUCCESSES else _OF_HTTP.get(answer.status, _UNKNOWN)
    return _BY_NUMBER[number]


def error_status(error: PlatformError) -> grpc.StatusCode:
    """Return the status of an error of Partita itself."""
    http = PROBLEMS[error.problem_code]
    return _BY_NUMBER[_OF_CODES.get(error.problem_code, _OF_HTTP.get(http, _UNKNOWN))]


def message_of(answer: MockAnswer) -> str:
    """Return what the status says: the detail, else `message` of the body, else the body."""
    text = answer.detail
    if not text:
        text = answer.body.decode(errors="replace")
        try:
            document = json.loads(text)
        except (ValueError, RecursionError):
            document = None
        if isinstance(document, dict) and isinstance(document.get("message"), str):
            text = document["message"]
    return text[:MAX_MESSAGE]


def sent_headers(headers: Sequence[tuple[str, str]]) -> SentMetadata:
    """Return the headers of an example as metadata; what gRPC sets itself is left out."""
    found = []
    for name, value in headers:
        key = name.lower()
        if not _KEY.fullmatch(key) or _RESERVED.fullmatch(key) or key.endswith("-bin"):
            continue
        found.append((key, _UNPRINTABLE.sub("?", value).strip()))
    return tuple(found)


def origin_of(answer: MockAnswer) -> SentMetadata:
    """Return the trailing metadata that say how the answer came about."""
    named = {
        "x-partita-mock-example": answer.example,
        "x-partita-mock-state-key": answer.state_key,
        "x-partita-mock-fallback": answer.fallback,
        "x-partita-mock-error": answer.error_code,
    }
    return tuple((key, _UNPRINTABLE.sub("?", value)) for key, value in named.items() if value)


def details_of(
    code: int, message: str, reason: str, errors: Sequence[Mapping[str, Any]]
) -> SentMetadata:
    """Return `google.rpc.Status` with the reason, and the fields that are at fault."""
    status = status_pb2.Status(code=code, message=message)
    status.details.add().Pack(error_details_pb2.ErrorInfo(reason=reason, domain=DOMAIN))
    if errors:
        violations = [
            error_details_pb2.BadRequest.FieldViolation(
                field=str(each.get("pointer", "")), description=str(each.get("detail", ""))
            )
            for each in errors[:MAX_DETAILS]
        ]
        status.details.add().Pack(error_details_pb2.BadRequest(field_violations=violations))
    return (("grpc-status-details-bin", status.SerializeToString()),)
