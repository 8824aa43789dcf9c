"""Answers of mocks as ASGI sends them: prepared headers, problem documents, what never goes out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import msgspec

from kernel.errors import PlatformError
from kernel.problems import problem_document, problem_headers
from mocks.journal.entries import nearest_for_caller
from mocks.model.calls import MockAnswer

if TYPE_CHECKING:
    from mocks.engine.tables import CompiledOperation

Headers = list[tuple[bytes, bytes]]
SECURITY: Final[Headers] = [
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"content-security-policy", b"sandbox"),  # a body cannot act in the origin of the pages
    (b"cross-origin-opener-policy", b"same-origin"),
]
CORS: Final[Headers] = [
    (b"access-control-allow-origin", b"*"),
    (b"access-control-expose-headers", b"*"),
]
CORS_ANSWER: Final[Headers] = [*CORS, (b"vary", b"Origin")]
METHODS: Final = b"GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"
_USUAL_REQUEST_HEADERS: Final = (
    b"Authorization, Content-Type, X-Request-Id, X-Partita-Mock-Secret, traceparent, tracestate"
)
_REQUEST_HEADERS: Final = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z, -]{1,2048}")
_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,256}")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_NOT_SENT: Final = frozenset(  # what belongs to the connection
    (
        *("connection", "content-length", "keep-alive", "te", "trailer", "transfer-encoding"),
        *("proxy-authenticate", "proxy-authorization", "upgrade", "x-request-id"),
        *("access-control-allow-origin", "access-control-allow-credentials"),
        "access-control-expose-headers",
    )
)
_OF_SITE: Final = frozenset(  # what an answer could change for the pages of its host
    (
        *("set-cookie", "clear-site-data", "service-worker-allowed", "strict-transport-security"),
        *("alt-svc", "nel", "report-to", "reporting-endpoints"),
    )
)
_LONGEST_URL: Final = 8_192
_LONGEST_NAME: Final = 1_024
_SET_COOKIE: Final = "set-cookie"
_LOWEST, _HIGHEST = 200, 599
_NO_CONTENT, _NOT_MODIFIED = 204, 304


class BadStatus(PlatformError):
    code = "mock_metadata_invalid"


@lru_cache(maxsize=4096)
def wire_name(name: str) -> tuple[bytes, bool] | None:
    """Return a header's name as it is sent and whether it concerns the site; None: never sent."""
    lower = name.lower()
    if lower in _NOT_SENT or lower.startswith("x-partita-") or not _NAME.fullmatch(name):
        return None
    return lower.encode(), lower in _OF_SITE


def wire_value(value: str) -> bytes:
    if not value.isprintable():
        value = _CONTROL.sub("", value)
    try:
        return value.encode("latin-1")
    except UnicodeEncodeError:
        return value.encode(errors="replace")


def lines(headers: Headers) -> bytes:
    """Return headers as they are sent in HTTP/1.1."""
    return b"".join([b"%b: %b\r\n" % pair for pair in headers])


def operation_headers(operation: CompiledOperation, security: Headers) -> Headers:
    """Return what each answer of an operation has."""
    mock = operation.operation.mock
    return [
        *security,
        (b"x-partita-mock-adapter", wire_value(operation.adapter)),
        (b"x-partita-mock-dispatcher", wire_value(operation.dispatcher)),
        (b"x-partita-mock-runtime-url", wire_value(mock.runtime_url[:_LONGEST_URL])),
        (b"x-partita-mock-resolver-url", wire_value(mock.resolver_url[:_LONGEST_URL])),
    ]


def mock_response(
    common: Headers, answer: MockAnswer, *, on_site: bool, reserved: frozenset[bytes]
) -> tuple[int, Headers, bytes]:
    """Return status, headers and body of the answer of a mock; raise BadStatus.

    `on_site`: it goes out on the host of the pages, whose cookies no mock may set. No example sets
    a header whose name is reserved.
    """
    status, body = answer.status, answer.body
    if not _LOWEST <= status <= _HIGHEST:
        raise BadStatus(f"{status} is not a status that an example can have (200 to 599)")
    headers = common.copy()
    if answer.headers:
        headers += _examples_own(answer.headers, on_site=on_site, reserved=reserved)
    if status in (_NO_CONTENT, _NOT_MODIFIED):
        body = b""
    else:
        if answer.media_type:
            headers.append((b"content-type", wire_value(answer.media_type)))
        headers.append((b"content-length", b"%d" % len(body)))
    _add_origin(headers, answer)
    return status, headers, body


def contract_header(errors: Sequence[Mapping[str, Any]]) -> tuple[bytes, bytes]:
    """Return the header that says how a call or its answer breaks their contract."""
    first = f"{errors[0]['pointer']}: {errors[0]['detail']}"[:_LONGEST_NAME]
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    return b"x-partita-mock-contract", wire_value(f"invalid; {first}{more}")


def nearest_member(answer: MockAnswer) -> dict[str, object]:
    """Return the member of a problem that says what an unmatched call was nearest to, if known."""
    return {} if answer.nearest is None else {"nearest": nearest_for_caller(answer.nearest)}


def _examples_own(
    named: Iterable[tuple[str, str]], *, on_site: bool, reserved: frozenset[bytes]
) -> Headers:
    headers: Headers = []
    for name, value in named:
        known = wire_name(name)
        if known is not None and known[0] not in reserved and not (on_site and known[1]):
            headers.append((known[0], wire_value(value)))
    return headers


def _add_origin(headers: Headers, answer: MockAnswer) -> None:
    """Say how the answer came about."""
    if answer.example:
        headers.append((b"x-partita-mock-example", wire_value(answer.example[:_LONGEST_NAME])))
    if answer.state_key:
        headers.append((b"x-partita-mock-state-key", wire_value(answer.state_key)))
    if answer.fallback:
        headers.append((b"x-partita-mock-fallback", wire_value(answer.fallback)))
    if answer.grpc_status is not None:
        headers.append((b"grpc-status", b"%d" % answer.grpc_status))


def without_cookies(answer: MockAnswer, names: frozenset[str]) -> MockAnswer:
    """Return an answer that sets no cookie of these names, on whatever host it goes out."""
    if not any(name.lower() == _SET_COOKIE for name, _ in answer.headers):
        return answer
    kept = [
        (name, value)
        for name, value in answer.headers
        if name.lower() != _SET_COOKIE or _cookie_name(value) not in names
    ]
    return replace(answer, headers=kept)


def _cookie_name(value: str) -> str:
    """Return the name under which a browser sends a cookie back."""
    return _CONTROL.sub("", value).lstrip("= ").partition("=")[0].strip()


def has_site_headers(answer: MockAnswer) -> bool:
    known = (wire_name(name) for name, _ in answer.headers)
    return any(each is not None and each[1] for each in known)


def problem(
    error: PlatformError,
    common: Headers,
    *,
    path: str,
    request_id: str,
    errors: Sequence[Mapping[str, Any]] = (),
) -> tuple[int, Headers, bytes]:
    """Return an answer made by Partita itself: application/problem+json."""
    document = problem_document(error, instance=path, request_id=request_id)
    if errors:
        document["errors"] = list(errors)
    body = msgspec.json.encode(document)
    known = {name for name, _ in common}
    headers = [
        *common,
        (b"content-type", b"application/problem+json"),
        (b"content-length", b"%d" % len(body)),
        (b"x-partita-mock-error", error.problem_code.encode()),
        *(
            (wire, value.encode())
            for name, value in problem_headers(error).items()
            if (wire := name.lower().encode()) not in known
        ),
    ]
    return document["status"], headers, body


def document(common: Headers, value: Any) -> tuple[int, Headers, bytes]:
    """Return 200 with a JSON document of Partita."""
    body = msgspec.json.encode(value)
    headers = [
        *common,
        (b"content-type", b"application/json"),
        (b"content-length", b"%d" % len(body)),
    ]
    return 200, headers, body


def allowed_methods(declared: Sequence[str]) -> bytes:
    """Return the value of Allow for a path: what is declared, HEAD with GET, and OPTIONS."""
    found = {*declared, "OPTIONS"} | ({"HEAD"} if "GET" in declared else set())
    known = METHODS.decode().split(", ")
    return ", ".join([each for each in known if each in found] + sorted(found - {*known})).encode()


def preflight(security: Headers, asked: bytes) -> tuple[int, Headers, bytes]:
    """Return the answer to OPTIONS: pages of any origin may call mocks, without credentials."""
    allowed = asked if _REQUEST_HEADERS.fullmatch(asked) else _USUAL_REQUEST_HEADERS
    headers = [
        *security,
        (b"access-control-allow-origin", b"*"),
        (b"access-control-allow-methods", METHODS),
        (b"access-control-allow-headers", allowed),
        (b"access-control-max-age", b"600"),
        (b"vary", b"Access-Control-Request-Headers"),
        (b"allow", METHODS),
    ]
    return _NO_CONTENT, headers, b""
