"""`/internal/mock-data/…`: the answer of a mock as a document, for a gateway that replays it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import quote, urlsplit

from mocks.engine.documents import encoded_body, fault_document
from mocks.model.calls import MockAnswer
from mocks.plane.http_requests import parse_query
from mocks.plane.http_responses import wire_name

if TYPE_CHECKING:
    from mocks.engine.tables import CompiledOperation, CompiledSurface

_MOCKS: Final = "/mocks/rest/"
_SAFE: Final = "/%:@!$&'()*+,;=~-._"


class OriginalCall(NamedTuple):
    """The call that a gateway received: `path` is the one below the surface."""

    method: str
    path: str
    query: dict[str, str]
    raw_query: str
    params: Mapping[str, str]


def original_call(
    surface: CompiledSurface,
    operation: CompiledOperation,
    *,
    method: str,
    given: Mapping[bytes, bytes],
    raw_query: bytes,
) -> OriginalCall:
    """Return the original call of a request to the resolver.

    Its headers name it, or `_path` of the query; otherwise the request's own method (for POST the
    operation's) and the operation's mock URL stand for it.
    """
    own = parse_query(raw_query)
    named_method = given.get(b"x-partita-original-method", b"").decode("latin-1").strip().upper()
    called = named_method or (operation.operation.method if method == "POST" else method)
    named = given.get(b"x-partita-original-path", b"").decode("latin-1") or own.pop("_path", "")
    text = named or urlsplit(operation.operation.mock_url).path
    path, has_query, query = text.partition("?")
    path = quote(_below_surface(path), safe=_SAFE)
    raw = query if has_query else _without_path(raw_query.decode("latin-1"))
    found = surface.route(called, path) if operation.adapter == "rest" else None
    return OriginalCall(
        method=called,
        path=path,
        query=parse_query(query.encode("latin-1", "replace")) if has_query else own,
        raw_query=raw,
        params=found[1] if found is not None and found[0] is operation else {},
    )


def _below_surface(path: str) -> str:
    if path.startswith(_MOCKS):
        parts = path.split("/", 5)
        return f"/{parts[5]}" if len(parts) > 5 else "/"  # noqa: PLR2004 - "", mocks, rest, space, surface
    return path if path.startswith("/") else f"/{path}"


def _without_path(raw_query: str) -> str:
    return "&".join(part for part in raw_query.split("&") if not part.startswith("_path="))


def resolved_document(
    operation: CompiledOperation | None, answer: MockAnswer, *, headers: Mapping[str, list[str]]
) -> dict[str, Any]:
    """Return the wire form of an answer."""
    document: dict[str, Any] = {
        "status": answer.status,
        "mediaType": answer.media_type,
        "headers": headers,
        "body": answer.body.decode(errors="replace"),
        "adapter": operation.adapter if operation else "",
        "dispatcher": operation.dispatcher if operation else "",
        "resolverUrl": operation.operation.mock.resolver_url if operation else "",
        "runtimeUrl": operation.operation.mock.runtime_url if operation else "",
    }
    optional = {
        "bodyBase64": encoded_body(answer.body),
        "matchedExample": answer.example,
        "fallback": answer.fallback,
        "stateKey": answer.state_key,
        "fault": fault_document(answer.fault) if answer.fault else None,
    }
    document |= {name: value for name, value in optional.items() if value}
    if answer.contract_errors:
        document["contractErrors"] = list(answer.contract_errors)
    if answer.error_code:
        document["error"] = {"code": answer.error_code, "detail": answer.detail}
    return document


def headers_by_name(
    answer: MockAnswer, *, on_site: bool, reserved: frozenset[bytes]
) -> dict[str, list[str]]:
    """Return the values of an answer's headers by name, without those that do not go out."""
    listed: dict[str, list[str]] = {}
    for name, value in answer.headers:
        known = wire_name(name)
        if known is not None and known[0] not in reserved and not (on_site and known[1]):
            listed.setdefault(name, []).append(value)
    return listed
