"""One HTTP request to the data plane and its answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from kernel import telemetry
from kernel.errors import PlatformError
from kernel.prepared_answers import EXTENSION, STATUS_LINES, SendPrepared
from mocks.plane import http_responses
from mocks.plane.faults import send_fault
from mocks.plane.http_requests import BodyTooSlow, Receive, Scope, Send, request_id_of
from mocks.plane.http_responses import CORS_ANSWER, Headers
from surfaces.behaviors import MockFault

if TYPE_CHECKING:
    from mocks.plane.known_routes import Route

_SERVER_ERROR = 500


class HttpExchange:
    """A request with its raw headers; `status` is 0 until the answer goes out.

    The connection ends after the refusal of a body that does not arrive. `request_id` is that of
    the headers, or a new one, where none is given.

    `space`, `surface_id` and `operation` are set as soon as they are known: the journal and the
    metrics name them.
    """

    __slots__ = (
        "below", "given", "has_origin", "headers", "kind", "method", "operation", "path",
        "raw_body", "receive", "request_id", "scope", "send", "space", "started", "status",
        "surface_id", "unmatched_of",
    )  # fmt: skip

    def __init__(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
        *,
        started: float,
        given: Mapping[bytes, bytes],
        request_id: bytes | None = None,
    ) -> None:
        self.scope = scope
        self.receive = receive
        self.send = send
        self.started = started
        self.headers: list[tuple[bytes, bytes]] = scope["headers"]
        self.given = given
        self.request_id = request_id_of(given) if request_id is None else request_id
        self.method: str = scope["method"]
        self.path: str = raw_path(scope).decode("latin-1")
        self.has_origin = b"origin" in given
        self.status = 0
        self.kind = ""
        self.space = ""
        self.surface_id = ""
        self.operation: Any = None
        self.raw_body = b""
        self.below = ""
        self.unmatched_of: Any = None

    def set_route(self, route: Route) -> None:
        self.operation, self.below = route.operation, route.below
        self.space, self.surface_id = route.space.text, route.operation.surface.surface_id

    @property
    def is_preflight(self) -> bool:
        """Return whether OPTIONS asks for a page of another origin."""
        return self.has_origin or b"access-control-request-method" in self.given

    async def reply(
        self, status: int, headers: Headers, body: bytes, *, ends: bool = False,
        fault: MockFault | None = None,
    ) -> None:  # fmt: skip
        """Send the answer; `ends` closes the connection after it. Raise FaultUnavailable."""
        cors = CORS_ANSWER if self.has_origin else []
        headers = [*headers, (b"x-request-id", self.request_id), *cors]
        if ends:
            headers.append((b"connection", b"close"))
        shown = b"" if self.method == "HEAD" else body
        if fault is not None:
            await send_fault(self, fault, (status, headers, shown))
            return
        self.status = status
        prepared = None if ends else prepared_sender(self.scope)
        if prepared is None or not prepared(
            STATUS_LINES[status] + http_responses.lines(headers), shown
        ):
            start = {"type": "http.response.start", "status": status, "headers": headers}
            await self.send(start)
            await self.send({"type": "http.response.body", "body": shown})

    async def preflight(self, security: Headers, asked: bytes) -> None:
        """Answer OPTIONS; every origin may call mocks."""
        self.has_origin = False
        await self.reply(*http_responses.preflight(security, asked))

    async def refuse(
        self,
        error: PlatformError,
        common: Headers,
        errors: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        """Answer with a problem document."""
        status, headers, body = http_responses.problem(
            error,
            common,
            path=unquote(self.path),
            request_id=self.request_id.decode(),
            errors=errors,
        )
        await self.reply(status, headers, body, ends=isinstance(error, BodyTooSlow))

    def begin_span(self) -> Any:
        """Return a span below the caller's, None without one or without telemetry."""
        if b"traceparent" not in self.given or not telemetry.is_configured():
            return None
        names = (b"traceparent", b"tracestate")
        caller = {name.decode(): self.given[name].decode("latin-1") for name in names
                  if name in self.given}  # fmt: skip
        route = _PATTERNS.get(self.path.split("/", 3)[2] if self.path.count("/") > 1 else "", "")
        attributes = {
            "http.request_id": self.request_id.decode(),
            "http.route": route or "unmatched",
            "http.method": self.method,
            "http.request.method": self.method,
            "http.scheme": self.scope.get("scheme", "http"),
        }
        return telemetry.server_span(route or "unmatched", caller, attributes)

    def end_span(self, span: Any) -> None:
        span.set_attribute("http.status_code", self.status)
        span.set_attribute("http.response.status_code", self.status)
        if self.status >= _SERVER_ERROR:
            from opentelemetry.trace import StatusCode

            span.set_status(StatusCode.ERROR)
        span.end()


_PATTERNS = {
    "rest": "/mocks/rest/{space}/{surfaceId}/{path}",
    "grpc": "/mocks/grpc/{space}/{surfaceId}/{operationId}",
    "async": "/mocks/async/{space}/{surfaceId}/{operationId}",
    "ready": "/mocks/ready/{space}/{surfaceId}",
    "mock-data": "/internal/mock-data/{space}/{surfaceId}/{operationId}",
}


def raw_path(scope: Scope) -> bytes:
    """Return the path as it came, without its query."""
    found: bytes | None = scope.get("raw_path")
    if found is None:
        found = scope["path"].encode()
    return found.partition(b"?")[0]


def prepared_sender(scope: Scope) -> SendPrepared | None:
    """Return what sends a whole answer at once, where the server has it."""
    extension = scope.get("extensions", _NONE).get(EXTENSION)
    return extension["send"] if extension else None


_NONE: Mapping[str, Any] = {}
