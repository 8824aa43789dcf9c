"""The lists of the HTTP API: filters, cursors (reference: sync-stack 4.11)."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from kernel.clock import parse_rfc3339
from kernel.errors import PlatformError
from sync_stack.core.tasks import Kind, State
from sync_stack.orchestrator.rows import overview
from sync_stack.orchestrator.serving.documents import (
    drift_document,
    task_document,
    unit_document,
)
from sync_stack.orchestrator.serving.http_wire import Answer, Request, answer, invalid, limit_of

QueryParameters = Mapping[str, list[str]]
_ID: Final = re.compile(r"[0-9a-f-]{36}\Z")
_COMMIT: Final = re.compile(r"[0-9a-f]{7,64}\Z")
_PAGE: Final = ("limit", "cursor")
_TASK_COLUMNS: Final = ("kind", "platform", "datasource", "delivery_id")
_TASK_FACETS: Final = ("rule", "repo", "ref", "env")
_TASK_FILTERS: Final = ("state", "commit", "created_after", "created_before")
_DRIFT_STATES: Final = ("open", "healing", "healed", "resolved", "unhealed", "superseded")
_STATUSES: Final = (
    "in_sync",
    "drifted",
    "healing",
    "flapping",
    "syncing",
    "inconsistent",
    "unknown",
)


def list_tasks(request: Request) -> Answer:
    known = (*_TASK_COLUMNS, *_TASK_FACETS, *_TASK_FILTERS, *_PAGE)
    given = request.parameters(known, repeated=("state",))
    where: dict[str, Any] = {name: given[name][0] for name in _TASK_COLUMNS if name in given}
    if "kind" in given:
        where["kind"] = _among("kind", given["kind"][0].lower(), [str(kind) for kind in Kind])
    if "state" in given:
        states = [str(state) for state in State]
        where["state__in"] = [_among("state", text.upper(), states) for text in given["state"]]
    where |= _created(given)
    facets = [f"{name}:{given[name][0]}\n" for name in _TASK_FACETS if name in given]
    facets += _commit(given)
    limit = limit_of(given)
    rows = overview.list_tasks(where, facets, before=_cursor(given), limit=limit + 1)
    return _page("tasks", rows, limit, lambda row: task_document(row, whole=False))


def list_targets(request: Request) -> Answer:
    given = request.parameters(("rule", "datasource", "repo", "env", "status", *_PAGE))
    where = _columns(given, {"rule": "rule_id"}, ("rule", "datasource", "repo", "env", "status"))
    if "status" in given:
        _among("status", given["status"][0], _STATUSES)
    limit = limit_of(given)
    rows = overview.list_units(where, after=_cursor(given), limit=limit + 1)
    return _page("targets", rows, limit, unit_document)


def list_drift(request: Request) -> Answer:
    given = request.parameters(("rule", "datasource", "env", "state", "since", *_PAGE))
    where = _columns(given, {"rule": "rule_id"}, ("rule", "datasource", "env", "state"))
    if "state" in given:
        _among("state", given["state"][0], _DRIFT_STATES)
    since = _moment(given, "since")
    limit = limit_of(given)
    rows = overview.list_drift(where, since=since, before=_cursor(given), limit=limit + 1)
    return _page("drift", rows, limit, drift_document)


def _columns(
    given: QueryParameters, renamed: Mapping[str, str], names: Sequence[str]
) -> dict[str, str]:
    return {renamed.get(name, name): given[name][0] for name in names if name in given}


def _created(given: QueryParameters) -> dict[str, datetime]:
    after, before = _moment(given, "created_after"), _moment(given, "created_before")
    found = {"created_at__gt": after, "created_at__lt": before}
    return {name: instant for name, instant in found.items() if instant is not None}


def _moment(given: QueryParameters, name: str) -> datetime | None:
    if name not in given:
        return None
    try:
        return parse_rfc3339(given[name][0])
    except ValueError:
        raise invalid("invalid_parameter", name, "expected an RFC 3339 time") from None


def _commit(given: QueryParameters) -> list[str]:
    if "commit" not in given:
        return []
    text = given["commit"][0].lower()
    if not _COMMIT.match(text):
        raise invalid("invalid_parameter", "commit", "expected at least 7 hex digits")
    return [f"commit:{text}"]


def _among(name: str, text: str, options: Sequence[str]) -> str:
    if text not in options:
        raise invalid("invalid_parameter", name, f"expected one of {', '.join(options)}")
    return text


def _cursor(given: QueryParameters) -> str:
    if "cursor" not in given:
        return ""
    try:
        text = base64.urlsafe_b64decode(given["cursor"][0] + "==").decode()
    except (binascii.Error, UnicodeDecodeError, ValueError):
        text = ""
    if not _ID.match(text):
        raise PlatformError("the cursor is not one of this list", code="invalid_cursor")
    return text


def _page(
    name: str, rows: Sequence[Any], limit: int, document: Callable[[Any], dict[str, Any]]
) -> Answer:
    body: dict[str, Any] = {name: [document(row) for row in rows[:limit]]}
    if len(rows) > limit:
        cursor = base64.urlsafe_b64encode(rows[limit - 1].id.encode()).decode().rstrip("=")
        body["nextCursor"] = cursor
    return answer(body)
