"""Responses of the gateway: the closed table of error codes and the bytes of every body."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

import msgspec

JSON_TYPE: Final = b"application/json"


class Code(StrEnum):
    """The error codes; an error body holds no other one."""

    PLATFORM_MISMATCH = "GW_PLATFORM_MISMATCH"
    MISSING_DELIVERY_ID = "GW_MISSING_DELIVERY_ID"
    INVALID_CONTENT_TYPE = "GW_INVALID_CONTENT_TYPE"
    BODY_READ_FAILED = "GW_BODY_READ_FAILED"
    INVALID_JSON = "GW_INVALID_JSON"
    PAYLOAD_VALIDATION = "GW_PAYLOAD_VALIDATION"
    SIGNATURE_INVALID = "GW_SIGNATURE_INVALID"
    REPLAY_DETECTED = "GW_REPLAY_DETECTED"
    DATASOURCE_NOT_FOUND = "GW_DATASOURCE_NOT_FOUND"
    SCHEMA_REGISTRY_NOT_CONFIGURED = "GW_SCHEMA_REGISTRY_NOT_CONFIGURED"
    NOT_FOUND = "GW_NOT_FOUND"
    METHOD_NOT_ALLOWED = "GW_METHOD_NOT_ALLOWED"
    BODY_TOO_LARGE = "GW_BODY_TOO_LARGE"
    RATE_LIMITED = "GW_RATE_LIMITED"
    INTERNAL = "GW_INTERNAL"
    ORCHESTRATOR_ERROR = "GW_ORCHESTRATOR_ERROR"
    ORCHESTRATOR_UNAVAILABLE = "GW_ORCHESTRATOR_UNAVAILABLE"
    SECRET_UNAVAILABLE = "GW_SECRET_UNAVAILABLE"  # noqa: S105 - the name of a code
    DELIVERY_IN_PROGRESS = "GW_DELIVERY_IN_PROGRESS"


STATUS: Final[Mapping[Code, int]] = {
    Code.PLATFORM_MISMATCH: 400,
    Code.MISSING_DELIVERY_ID: 400,
    Code.INVALID_CONTENT_TYPE: 415,  # 400 when the header is absent
    Code.BODY_READ_FAILED: 400,
    Code.INVALID_JSON: 400,
    Code.PAYLOAD_VALIDATION: 400,
    Code.SIGNATURE_INVALID: 401,
    Code.REPLAY_DETECTED: 401,
    Code.DATASOURCE_NOT_FOUND: 404,
    Code.SCHEMA_REGISTRY_NOT_CONFIGURED: 404,
    Code.NOT_FOUND: 404,
    Code.METHOD_NOT_ALLOWED: 405,
    Code.BODY_TOO_LARGE: 413,
    Code.RATE_LIMITED: 429,
    Code.INTERNAL: 500,
    Code.ORCHESTRATOR_ERROR: 502,
    Code.ORCHESTRATOR_UNAVAILABLE: 503,
    Code.SECRET_UNAVAILABLE: 503,
    Code.DELIVERY_IN_PROGRESS: 503,
}


class GatewayResponse(msgspec.Struct, frozen=True, kw_only=True):
    """Status, body and further headers; `outcome` is the label in metrics and logs."""

    status: int
    body: bytes
    outcome: str
    content_type: bytes = JSON_TYPE
    headers: tuple[tuple[bytes, bytes], ...] = ()


class Refusal(Exception):
    """A refused request, with its code and a message for the sender."""

    def __init__(
        self,
        code: Code,
        message: str,
        *,
        status: int | None = None,
        retry_after_s: int | None = None,
        headers: tuple[tuple[bytes, bytes], ...] = (),
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.status = status or STATUS[code]
        self.retry_after_s = retry_after_s
        self.headers = headers

    @property
    def response(self) -> GatewayResponse:
        headers = self.headers
        if self.retry_after_s is not None:
            headers = (*headers, (b"retry-after", b"%d" % max(1, self.retry_after_s)))
        return GatewayResponse(
            status=self.status,
            body=error_body(self.code, self.message, self.status),
            outcome=outcome_label(self.code),
            headers=headers,
        )


def error_body(code: Code, message: str, status: int) -> bytes:
    return msgspec.json.encode({"code": code.value, "message": message, "status": status})


def outcome_label(code: Code) -> str:
    return code.value.removeprefix("GW_").lower()


def accepted_response(task_id: str, message: str = "accepted") -> GatewayResponse:
    """Return 202: the task, or with the inbox the delivery, is stored."""
    body = msgspec.json.encode({"task_id": task_id, "message": message})
    return GatewayResponse(status=202, body=body, outcome="accepted")


def ignored_response() -> GatewayResponse:
    return GatewayResponse(
        status=200, body=b'{"task_id":"","message":"event ignored"}', outcome="ignored"
    )
