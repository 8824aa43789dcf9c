"""HTTP: middleware, problems, request bodies, entity tags; `rest` is the base of REST views."""

from __future__ import annotations

from apps.http.client_ip import client_ip
from apps.http.conf import has_documentation, public_url
from apps.http.json_body import PayloadTooLarge
from apps.http.keyset import rows_after
from apps.http.middleware.base import AsyncMiddleware
from apps.http.middleware.headers import is_allowed_origin
from apps.http.responses import (
    internal_error,
    is_not_modified,
    is_precondition_met,
    problem_for,
    read_only,
    strong_etag,
)
