"""A call that is only explained."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, cast
from urllib.parse import parse_qsl, urlencode

import msgspec
from msgspec import Meta

from kernel.errors import InvalidInput
from mocks.engine.soap import find_soap_operation
from mocks.engine.tables import (
    CompiledOperation,
    CompiledSpace,
    CompiledSurface,
    graphql_calls,
)
from mocks.errors import OperationNotFound
from mocks.model.calls import MockAnswer, MockRequest

MAX_QUERY_FIELDS: Final = 1_000
_JSON: Final = "application/json"


class ExplainedCall(
    msgspec.Struct, rename="camel", forbid_unknown_fields=True, omit_defaults=True, kw_only=True
):
    """An operation by its id or name, or a method and a path below the surface.

    `path` may have a query. A `body` that is not text is sent as JSON.
    """

    surface_id: Annotated[str, Meta(min_length=1, max_length=128)]
    operation_id: Annotated[str, Meta(max_length=1_024)] = ""
    method: Annotated[str, Meta(max_length=32)] = ""
    path: Annotated[str, Meta(max_length=8_192)] = ""
    headers: dict[str, str] = {}
    query: dict[str, str] = {}
    body: Any = ""

    def request(self, method: str, path: str, params: Mapping[str, str]) -> MockRequest:
        headers = {name.lower(): value for name, value in self.headers.items()}
        if not isinstance(self.body, str):
            headers.setdefault("content-type", _JSON)
        query = self.all_queries
        return MockRequest(
            method,
            path,
            headers=headers,
            query=query,
            params=params,
            raw_body=self.raw_body,
            raw_query="&".join(filter(None, (urlencode(self.query), self.path.partition("?")[2]))),
        )

    @property
    def path_only(self) -> str:
        path = self.path.partition("?")[0]
        return path if path.startswith("/") or not path else f"/{path}"

    @property
    def all_queries(self) -> dict[str, str]:
        """Return each name's first value: that of `query` before that in `path`."""
        text = self.path.partition("?")[2]
        try:
            pairs = parse_qsl(text, keep_blank_values=True, max_num_fields=MAX_QUERY_FIELDS)
        except ValueError:
            raise InvalidInput("path has too many query parameters") from None
        return {**dict(reversed(pairs)), **self.query}

    @property
    def raw_body(self) -> bytes:
        return self.body.encode() if isinstance(self.body, str) else msgspec.json.encode(self.body)


def locate_call(space: CompiledSpace, call: ExplainedCall) -> tuple[CompiledOperation, MockRequest]:
    """Return the operation that a call leads to, and the request as it gets it.

    Raise SurfaceNotFound, OperationNotFound, and InvalidInput if neither names an operation.
    """
    surface = space.find_surface(call.surface_id)
    if call.operation_id:
        return _by_id(surface, call)
    if not (call.method and call.path):
        raise InvalidInput("name the operation by operationId, or by method and path")
    method = call.method.upper()
    found = surface.route(method, call.path_only)
    if found is not None:
        return _meant_operation(found[0], call.request(method, call.path_only, found[1]))
    if operation := surface.find(call.path_only, "grpc"):  # as the journal names its call
        return operation, call.request(method, f"/{operation.operation.path.lstrip('/')}", {})
    raise OperationNotFound(f"no operation of {call.surface_id} answers {method} {call.path}")


def _meant_operation(
    operation: CompiledOperation, request: MockRequest
) -> tuple[CompiledOperation, MockRequest]:
    """Return the operation of an address that a body means: of GraphQL, of the first root field."""
    if operation.protocol == "graphql":
        located = graphql_calls().locate_graphql(operation, request)
        return cast("tuple[CompiledOperation, MockRequest]", located)
    found = find_soap_operation(operation, request) if operation.protocol == "soap" else operation
    return operation if isinstance(found, MockAnswer) else found, request


def _by_id(surface: CompiledSurface, call: ExplainedCall) -> tuple[CompiledOperation, MockRequest]:
    operation = surface.find_any(call.operation_id)
    if operation is None:
        raise OperationNotFound(f"{call.surface_id} has no operation {call.operation_id!r}")
    method = (call.method or operation.operation.method).upper()
    params: Mapping[str, str] = {}
    if call.path and operation.adapter == "rest":
        found = surface.route(method, call.path_only)
        if found is None or found[0] is not operation:
            raise InvalidInput(f"{method} {call.path} does not lead to {call.operation_id}")
        params = found[1]
    path = call.path_only or f"/{operation.operation.path.lstrip('/')}"
    return operation, call.request(method, path, params)
