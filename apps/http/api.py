"""HTTP: middleware, problems, request bodies, entity tags; `rest` is the base of REST views."""

from __future__ import annotations

from apps.http.client_ip import client_ip
from apps.http.conf import public_url
from apps.http.domain.etags import is_not_modified, strong_etag
from apps.http.json_body import MAX_BODY_BYTES, MalformedJson, PayloadTooLarge, parse_json
from apps.http.middleware.base import AsyncMiddleware, when_closed
from apps.http.problems import internal_error, problem_for, problem_response
from apps.http.read_only import read_only

__all__ = [
    "MAX_BODY_BYTES",
    "AsyncMiddleware",
    "MalformedJson",
    "PayloadTooLarge",
    "client_ip",
    "internal_error",
    "is_not_modified",
    "parse_json",
    "problem_for",
    "problem_response",
    "public_url",
    "read_only",
    "strong_etag",
    "when_closed",
]
