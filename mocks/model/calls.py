"""A call of a mock: the request, the answer, and what is kept of both."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Final
from urllib.parse import parse_qs

import msgspec

from kernel.errors import FieldErrorDocument
from mocks.model.paths import json_text, text_of_value, value_at
from surfaces.behaviors import MockFault
from surfaces.template_paths import Step

MAX_COMPARED: Final = 64 * 2**20
CALLBACK: Final = "CALLBACK"  # the method of calls that follow an answer, in the journal
_FORM: Final = "application/x-www-form-urlencoded"
_FORM_FIELDS: Final = 1_000
_json: Final = msgspec.json.Decoder()


class CallOutcome(StrEnum):
    """How a call ended; a label of the metrics and a filter of the journal."""

    EXAMPLE = "example"
    FALLBACK = "fallback"
    NO_MATCH = "no_match"  # no operation, or no example and no fallback
    REJECTED = "rejected"  # a constraint, a schema or a limit refused it
    ERROR = "error"  # broken metadata, a failed script or proxy


def parse_body(body: bytes, content_type: str) -> Any:
    """Parse JSON, or a form to the first values; return other text as it is, "" when empty.

    An object or array is JSON whatever its type says: `curl -d` names every body a form.
    """
    if not body:
        return ""
    if content_type.startswith(_FORM):
        found = _json_container(body)
        return _form_fields(body) if found is None else found
    try:
        return _json.decode(body)
    except (ValueError, RecursionError):
        return body.decode(errors="replace")


def _form_fields(body: bytes) -> Any:
    """Return each field's first value by its name; the text of a body that is no form."""
    try:
        fields = parse_qs(body.decode(), keep_blank_values=True, max_num_fields=_FORM_FIELDS)
    except ValueError:
        return body.decode(errors="replace")
    return {name: values[0] for name, values in fields.items()}


def _json_container(body: bytes) -> Any:
    """Return the object or array that a body is the JSON of, None for any other body."""
    if body.lstrip()[:1] not in (b"{", b"["):
        return None
    try:
        return _json.decode(body)
    except (ValueError, RecursionError):
        return None


class MockRequest:
    """A request to an operation. `body` is parsed when it is first asked for.

    `path` is the path below the surface with a leading slash, `params` the decoded path
    parameters, `query` each name's first value, `headers` by lower-case name (values of one name
    joined by ", "), `raw_query` as it came.
    """

    __slots__ = (
        "_body", "_room", "headers", "method", "params", "path", "query", "raw_body", "raw_query",
    )  # fmt: skip

    def __init__(  # noqa: PLR0913 - the parts of a request
        self,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str] | None = None,
        query: Mapping[str, str] | None = None,
        params: Mapping[str, str] | None = None,
        raw_body: bytes = b"",
        raw_query: str = "",
    ) -> None:
        self.method = method
        self.path = path
        self.headers = headers or {}
        self.query = query or {}
        self.params = params or {}
        self.raw_body = raw_body
        self.raw_query = raw_query
        self._body: Any = _UNREAD
        self._room = MAX_COMPARED

    @property
    def body(self) -> Any:
        """Return the body: JSON when it parses, a map of a form, otherwise text; "" when empty."""
        if self._body is _UNREAD:
            self._body = parse_body(self.raw_body, self.headers.get("content-type", ""))
        return self._body

    def with_body(self, body: Any) -> MockRequest:
        """Return the same request, whose body is read as this value."""
        made = MockRequest(
            self.method, self.path, headers=self.headers, query=self.query, params=self.params,
            raw_body=self.raw_body, raw_query=self.raw_query,
        )  # fmt: skip
        made._body = body
        return made

    @property
    def is_form(self) -> bool:
        """Return whether the body is a form, whose fields are texts."""
        is_named = self.headers.get("content-type", "").startswith(_FORM)
        return is_named and _json_container(self.raw_body) is None

    def body_text(self, steps: tuple[Step, ...]) -> str | None:
        """Return what stands at a path of the body as conditions compare it, None for nothing.

        Objects and arrays beyond `MAX_COMPARED` characters in one call count as nothing.
        """
        value = value_at(self.body, steps)
        if isinstance(value, str):
            return value
        if not isinstance(value, dict | list):
            return text_of_value(value)
        if self._room <= 0:
            return None
        text = json_text(value)
        self._room -= len(text)
        return text


_UNREAD: Final = object()


@dataclass(frozen=True, slots=True)
class CallbackRequest:
    """A call that follows an answer, after a delay; names of headers are lower-case."""

    method: str
    url: str
    headers: Mapping[str, str]
    body: bytes
    delay_ms: int = 0


@dataclass(slots=True, kw_only=True)
class MockAnswer:
    """The answer to a call, and how it came about.

    `headers` are those of the example or fallback, without Content-Type; `state_key` is set after
    a change of state, `fallback` is a mode. With `error_code`, Partita itself answers: a problem
    document with `detail` and `errors`; `headers` go with it. `grpc_status` is a status code of an
    example of gRPC. `nearest` says, for a call without a match, which example was nearest and what
    differs. `contract_errors` say how call and answer break their contract. With a `fault` the
    answer goes out broken, or not at all. Each of the `callbacks` makes a call that follows, or
    raises PlatformError.
    """

    status: int = 200
    media_type: str = ""
    headers: Sequence[tuple[str, str]] = ()
    body: bytes = b""
    outcome: CallOutcome = CallOutcome.EXAMPLE
    example: str = ""
    fallback: str = ""
    state_key: str = ""
    delay_ms: int = 0
    fault: MockFault | None = None
    grpc_status: int | None = None
    error_code: str = ""
    detail: str = ""
    errors: Sequence[FieldErrorDocument] = ()
    nearest: Mapping[str, Any] | None = None
    contract_errors: Sequence[FieldErrorDocument] = ()
    callbacks: Sequence[Callable[[], CallbackRequest]] = ()


class JournalEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is kept of a call, in memory and, as JSON, in Redis.

    Credentials are redacted and the body is cut before it is made. `cut` names the parts that are
    not whole: `query`, `header`, `body`.
    """

    id: str
    time: datetime
    method: str
    path: str
    surface_id: str
    operation_id: str = ""
    matched_example: str = ""
    outcome: CallOutcome
    status: int
    duration_ms: float
    request_query: str = ""
    request_headers: Mapping[str, str] = msgspec.field(default_factory=dict)
    request_body: str = ""
    state_key: str = ""
    step_id: str = ""
    tag: str = ""
    cut: tuple[str, ...] = ()
    nearest: Mapping[str, Any] | None = None  # of an unmatched call: example and difference
    contract_errors: tuple[FieldErrorDocument, ...] = ()
    fault: str = ""
    detail: str = ""  # why a callback has no answer
