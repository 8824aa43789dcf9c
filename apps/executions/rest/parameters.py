"""Query parameters of `/api/v1/executions`, read strictly."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any, Final

from django.http import QueryDict
from drf_spectacular.utils import OpenApiParameter
from rest_framework.request import Request

from apps.executions.domain.events import KINDS, LEVELS
from apps.executions.domain.runs import TRIGGERS, RunFilter
from apps.executions.domain.states import ExecutionStatus
from apps.executions.selectors.detail import PARTS
from apps.executions.selectors.logs import (
    PATTERN_MAX_CHARACTERS,
    LineFilter,
    SearchPatternInvalid,
    compile_pattern,
)
from apps.http.rest import InvalidParameter, choice_parameter, flag_parameter
from kernel import clock

FILTERS: Final = frozenset(
    {
        "status",
        "suiteId",
        "profile",
        "backendId",
        "trigger",
        "q",
        "since",
        "until",
        "workspaceId",
    }
)
SEARCH: Final = frozenset({"q", "regex", "case", "source", "kind", "level"})
_TEXT_MAX: Final = 500
_UNSTORABLE: Final = re.compile("[\x00\ud800-\udfff]")  # no store accepts these in text
_WHOLE_NUMBER: Final = re.compile(r"^\d{1,12}\Z", re.ASCII)
_IDEMPOTENCY_KEY: Final = re.compile(r"^[\x21-\x7e]{1,128}\Z")


def run_filter(request: Request) -> RunFilter:
    """Return the filter of a list of runs; raise InvalidParameter."""
    return RunFilter(
        statuses=choices(request.query_params, "status", [str(one) for one in ExecutionStatus]),
        suite_id=text(request.query_params, "suiteId"),
        profile=text(request.query_params, "profile"),
        backend_id=text(request.query_params, "backendId"),
        trigger=choice_parameter(request, "trigger", TRIGGERS),
        words=text(request.query_params, "q"),
        since=_instant(request.query_params, "since"),
        until=_instant(request.query_params, "until"),
    )


def omitted_parts(request: Request) -> frozenset[str]:
    return choices(request.query_params, "omit", PARTS)


def reference(request: Request) -> str:
    """Return the reference of a suite; raise InvalidParameter."""
    found = text(request.query_params, "ref").strip()
    if not found:
        raise InvalidParameter("ref is required: the id of a suite, or host/path:tag")
    return found


def line_filter(request: Request) -> LineFilter:
    """Return the filter of a log search; raise InvalidParameter, also for an invalid pattern."""
    query = text(request.query_params, "q", longest=PATTERN_MAX_CHARACTERS)
    if not query:
        raise InvalidParameter("q is required: the text or pattern to search for")
    try:
        pattern = compile_pattern(
            query, regex=flag_parameter(request, "regex"), case=flag_parameter(request, "case")
        )
    except SearchPatternInvalid as error:
        raise InvalidParameter(f"q is not a valid RE2 pattern: {error}") from None
    return LineFilter(
        pattern=pattern,
        sources=texts(request.query_params, "source"),
        kinds=_any_of(request, "kind", KINDS),
        levels=_any_of(request, "level", LEVELS),
    )


def text(values: Mapping[str, str], name: str, *, longest: int = _TEXT_MAX) -> str:
    """Return the parameter or ""; raise InvalidParameter for text that cannot be stored."""
    return _check_text(name, values.get(name, ""), longest)


def texts(values: QueryDict, name: str) -> frozenset[str]:
    """Return every value of a repeatable parameter; raise InvalidParameter."""
    return frozenset(_check_text(name, value, _TEXT_MAX) for value in values.getlist(name))


def _check_text(name: str, value: str, longest: int) -> str:
    if len(value) > longest:
        raise InvalidParameter(f"{name} has more than {longest} characters")
    if _UNSTORABLE.search(value):
        raise InvalidParameter(f"{name} contains an invalid character")
    return value


def choices(values: Mapping[str, str], name: str, options: Collection[str]) -> frozenset[str]:
    """Return the items of a comma list of `options`; raise InvalidParameter."""
    if name not in values:
        return frozenset()
    parts = frozenset(text(values, name).split(","))
    if unknown := sorted(parts - set(options)):
        known = ", ".join(options)
        raise InvalidParameter(f"{name}: unknown value {unknown[0]!r}; expected {known}")
    return parts


def offset_ms(values: Mapping[str, str], name: str) -> int:
    """Return the milliseconds since the start of a run; raise InvalidParameter."""
    value = values.get(name, "")
    if not _WHOLE_NUMBER.match(value):
        raise InvalidParameter(f"{name} must be milliseconds since the start, such as 1500")
    return int(value)


def idempotency_key(request: Request) -> str:
    """Return the header, or ""; raise InvalidParameter."""
    key = request.headers.get("Idempotency-Key")
    if key is None:
        return ""
    if not _IDEMPOTENCY_KEY.match(key):
        raise InvalidParameter("Idempotency-Key must be 1 to 128 visible ASCII characters")
    return key


def _any_of(request: Request, name: str, options: Collection[str]) -> frozenset[str]:
    values = frozenset(request.query_params.getlist(name))
    if values - set(options):
        raise InvalidParameter(f"{name} must be one of {', '.join(filter(None, options))}")
    return values


def _instant(values: Mapping[str, str], name: str) -> datetime | None:
    if name not in values:
        return None
    value = text(values, name)
    try:
        return clock.parse_rfc3339(value.replace(" ", "+"))  # `+` is a space in a query string
    except ValueError:
        raise InvalidParameter(f"{name} must be a time such as 2026-01-02T03:04:05Z") from None


def query(name: str, what: str, type_: Any = str, **more: object) -> OpenApiParameter:
    """Return a query parameter for the OpenAPI; `type_` may also be a schema."""
    return OpenApiParameter(name, type_, OpenApiParameter.QUERY, description=what, **more)  # type: ignore[arg-type]  # as the class documents


def comma_list(options: Collection[str]) -> dict[str, str]:
    """Return the schema of a comma list."""
    one = f"({'|'.join(options)})"
    return {"type": "string", "pattern": f"^{one}(,{one})*$"}


PAGING_PARAMETERS: Final = [
    query("limit", "entries", {"type": "integer", "minimum": 1, "maximum": 200, "default": 50}),
    query("cursor", "`nextCursor` of the page before, with the same filters"),
]
FILTER_PARAMETERS: Final = [
    query("status", "comma list", comma_list([str(one) for one in ExecutionStatus])),
    query("suiteId", "only runs of this suite"),
    query("profile", "only runs with this profile"),
    query("backendId", "only runs on this backend"),
    query("trigger", "what launched it", enum=list(TRIGGERS)),
    query("q", "looked for in ids, titles, profile, author, branch, commit and message"),
    query("since", "accepted at this time or later", datetime),
    query("until", "accepted before this time", datetime),
    query("workspaceId", "administrators: only this workspace"),
]
DETAIL_PARAMETERS: Final = [query("omit", "parts to leave out", comma_list(PARTS))]
SEARCH_PARAMETERS: Final = [
    query("q", "what to look for", required=True),
    query("regex", "`q` is an RE2 pattern", bool),
    query("case", "upper and lower case differ", bool),
    query("source", "only this step; repeatable"),
    query("kind", "only lines of this kind; repeatable", enum=list(KINDS)),
    query("level", "only lines of this level; repeatable", enum=list(LEVELS)),
]
