"""Spaces, compiled to tables: routes at once per surface, operations at their first use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from kernel.errors import PlatformError
from mocks.engine.callbacks import CompiledCallback
from mocks.engine.dispatch import Candidate, Candidates, Dispatcher, Place, dispatchers
from mocks.engine.rate_limits import RATE_LIMIT
from mocks.engine.responses import Response, ResponseParts
from mocks.engine.routes import Routes, segments
from mocks.engine.transitions import CompiledState
from mocks.engine.validation import Constraint, RequestSchema
from mocks.engine.variants import NotAcceptable, accepted_variant, link_variants, with_vary
from mocks.errors import SurfaceNotFound
from mocks.model.calls import CallOutcome, MockAnswer, MockRequest
from mocks.model.ports import SpaceContent
from mocks.model.spaces import SpaceName
from mocks.negotiation.prefer import PREFER, QUERY_MARK
from mocks.templates.expressions import TemplateInvalid
from mocks.templates.scope import Names
from surfaces import examples_of
from surfaces.behaviors import CallLimit
from surfaces.contract_checks import OperationChecks, checks_of
from surfaces.mock_files.contract_names import grpc_names
from surfaces.model import (
    SHARED_ROUTES,
    Exchange,
    Message,
    Operation,
    Surface,
    has_own_answers,
)
from surfaces.operation_rules import Fallback

if TYPE_CHECKING:
    from graphql import GraphQLSchema

_SHARED: Final = frozenset(map(str.casefold, SHARED_ROUTES))
_FALLBACK_STATUS: Final = "400"


def graphql_calls() -> Any:
    """Return `mocks.engine.graphql`, whose library takes 0.1 s to import."""
    return import_module("mocks.engine.graphql")


def exchanges_of(operation: Operation) -> tuple[Exchange, ...]:
    """Return the examples of an operation, in the order of the file, or those of its contract."""
    return examples_of(operation)


def compile_space(content: SpaceContent, name: SpaceName) -> CompiledSpace:
    """Return the tables of a space; nothing is compiled yet."""
    return CompiledSpace(content, name)


class CompiledSpace:
    def __init__(self, content: SpaceContent, name: SpaceName) -> None:
        self.content = content
        self.name = name
        self.key = str(name)  # of its state and journal
        self.surfaces: Mapping[str, CompiledSurface] = {
            each.surface_id: CompiledSurface(each, self) for each in content.surfaces
        }
        self.suite = {
            "id": content.suite_id,
            "title": content.title,
            "repository": content.repository,
        }
        self.execution = {"id": name.execution_id}
        # of GraphQL, by the path of its contract
        self.schemas: dict[str, GraphQLSchema | None] = {}

    def find_surface(self, surface_id: str) -> CompiledSurface:
        """Return a surface; raise SurfaceNotFound."""
        found = self.surfaces.get(surface_id)
        if found is None:
            raise SurfaceNotFound(surface_id)
        return found


class CompiledSurface:
    def __init__(self, surface: Surface, space: CompiledSpace) -> None:
        self.surface = surface
        self.space = space

    @cached_property
    def operations(self) -> Mapping[str, CompiledOperation]:
        return {
            each.operation_id: CompiledOperation(each, self.surface, self.space)
            for each in self.surface.operations
        }

    @cached_property
    def routes(self) -> Routes[CompiledOperation]:
        """Return the routes of the adapter rest."""
        made: Routes[CompiledOperation] = Routes()
        for each in self.routed:
            made.add(each.operation.method, each.operation.path, each)
            if each.protocol == "graphql":
                made.add("GET", each.operation.path, each)
        return made

    @cached_property
    def routed(self) -> Sequence[CompiledOperation]:
        """Return the operations of the adapter rest."""
        return [each for each in self.operations.values() if each.adapter == "rest"]

    @cached_property
    def by_literal(self) -> Mapping[tuple[int, str], Sequence[CompiledOperation]]:
        """Return the operations whose path has a literal at a place."""
        made: dict[tuple[int, str], list[CompiledOperation]] = {}
        for each in self.routed:
            for place in enumerate(segments(each.operation.path)):
                if "{" not in place[1]:
                    made.setdefault(place, []).append(each)
        return made

    @cached_property
    def _named(self) -> Mapping[tuple[str, str], CompiledOperation]:
        made: dict[tuple[str, str], CompiledOperation] = {}
        for attribute in ("operation_id", "name", "path"):
            for each in self.operations.values():
                made.setdefault((each.adapter, getattr(each.operation, attribute)), each)
        for each in self.operations.values():
            for name in grpc_names(each.operation.path) if each.adapter == "grpc" else ():
                made.setdefault(("grpc", name), each)
        return made

    def route(self, method: str, path: str) -> tuple[CompiledOperation, dict[str, str]] | None:
        """Return the operation at a raw path below the surface, with decoded path parameters."""
        return self.routes.find(method, path or "/")

    def find(self, text: str, adapter: str) -> CompiledOperation | None:
        """Return the operation of an adapter by its id, otherwise by its decoded name.

        A gRPC method has three: `Get`, `Orders/Get` and `shop.v1.Orders/Get`, also after a slash.
        """
        return self._named.get((adapter, text.removeprefix("/") if adapter == "grpc" else text))

    def find_any(self, text: str) -> CompiledOperation | None:
        """Return the operation by its id, otherwise by a name that one of an adapter has."""
        named = (self.find(text, adapter) for adapter in ("rest", "grpc", "async"))
        return self.operations.get(text) or next((each for each in named if each), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationTables:
    """How an operation answers. `broken` is the answer of one that cannot.

    `fallback` is the response of mode static; `reads_state` is False if no part of any answer
    depends on the record at the lookup key, `counts` if no template of any counts.
    """

    constraints: tuple[Constraint, ...] = ()
    state: CompiledState | None = None
    reads_state: bool = False
    counts: bool = False
    pick: Dispatcher
    place: Place
    candidates: Candidates
    fallback: Response | None = None
    broken: MockAnswer | None = None


class CompiledOperation:
    """An operation of a space; its tables are made when they are first asked for.

    `protocol` is `graphql` or `soap`, where many operations have one address, otherwise "".
    `prepared` is what a data plane keeps with it.
    """

    def __init__(self, operation: Operation, surface: Surface, space: CompiledSpace) -> None:
        self.operation = operation
        self.surface = surface
        self.space = space
        self.adapter = operation.mock.adapter
        self.dispatcher = operation.mock.dispatcher
        protocol = surface.protocol.casefold() if self.adapter == "rest" else ""
        self.protocol = protocol if protocol in _SHARED else ""
        self.prepared: Any = None

    @property
    def at_same_address(self) -> Sequence[CompiledOperation]:
        """Return the operations of the surface with this path, in the order of the file."""
        listed = self.space.surfaces[self.surface.surface_id].routed
        return [each for each in listed if each.operation.path == self.operation.path]

    @property
    def names(self) -> Names:
        """Return what templates of the operation know before a request."""
        operation = self.operation
        titles = {"surfaceId": self.surface.surface_id, "surfaceTitle": self.surface.title}
        return Names(
            suite={**self.space.suite, **titles},
            operation={
                "id": operation.operation_id,
                "name": operation.name,
                "resolverUrl": operation.mock.resolver_url,
                "runtimeUrl": operation.mock.runtime_url,
            },
            execution=self.space.execution,
        )

    @cached_property
    def tables(self) -> OperationTables:
        problems = self.operation.mock.problems
        if problems:
            return self._build_broken(problems)
        try:
            return self._tables(self.names)
        except (TemplateInvalid, PlatformError) as invalid:
            return self._build_broken((str(invalid),))

    def _tables(self, names: Names) -> OperationTables:
        mock = self.operation.mock
        candidates = Candidates(
            [
                self._candidate(each, order, names)
                for order, each in enumerate(exchanges_of(self.operation))
            ]
        )
        if self.adapter == "rest":
            link_variants(candidates.listed, dispatcher=mock.dispatcher)
        state = None
        if mock.state is not None:
            state = CompiledState(mock.state, self.operation.operation_id, names)
        fallback = None
        if mock.fallback is not None and mock.fallback.mode == "static":
            fallback = self._static(mock.fallback, names)
        responses = [each.response for each in candidates.listed]
        responses += [fallback] if fallback else []
        return OperationTables(
            constraints=tuple(Constraint(each) for each in mock.constraints),
            state=state,
            reads_state=mock.dispatcher == "script"
            or candidates.reads_state
            or (state is not None and state.reads_state)
            or any(each.reads_state for each in responses),
            counts=any(each.counters for each in responses),
            pick=dispatchers[mock.dispatcher],
            place=self._place,
            candidates=candidates,
            fallback=fallback,
        )

    def _candidate(self, exchange: Exchange, order: int, names: Names) -> Candidate:
        parts = ResponseParts(
            message=exchange.response,
            status=exchange.status,
            media_type=exchange.media_type,
            adapter=self.adapter,
            delay=exchange.delay or self.operation.mock.delay,
            fault=exchange.fault or self.operation.mock.fault,
            example=exchange.name,
        )
        request = exchange.request
        schema = None
        if request.headers_node is not None or request.body_node is not None:
            schema = RequestSchema(request.headers_node, request.body_node)
        callbacks = [CompiledCallback(each, names) for each in exchange.callbacks]
        return Candidate(exchange, order, Response(parts, names), schema, callbacks)

    def _static(self, fallback: Fallback, names: Names) -> Response:
        parts = ResponseParts(
            message=Message(headers=fallback.headers, body=fallback.body),
            status=fallback.status or _FALLBACK_STATUS,
            media_type=fallback.media_type,
            adapter=self.adapter,
            outcome=CallOutcome.FALLBACK,
            fallback="static",
            fault=self.operation.mock.fault,
        )
        return Response(parts, names)

    @cached_property
    def contract_checks(self) -> OperationChecks | None:
        """Return what checks calls against their contract, None where it says nothing of them."""
        return checks_of(self.operation)

    @cached_property
    def declared(self) -> Sequence[Candidate]:
        """Return the examples of its contract, for callers that ask for one of the responses."""
        contract = self.operation.contract_examples
        if contract is None or self.adapter != "rest" or not has_own_answers(self.operation):
            return self.tables.candidates.listed
        try:
            found = [self._candidate(each, 0, self.names) for each in contract.exchanges()]
        except TemplateInvalid:
            return ()
        link_variants(found, dispatcher=self.dispatcher)
        return found

    @cached_property
    def static(self) -> MockAnswer | None:
        """Return the answer of an operation that answers every request alike, at once.

        It is the one of callers that accept everything.
        """
        return self.accepted_static("")

    def static_for(self, request: MockRequest) -> MockAnswer | None:
        """Return the static answer that suits a request, None where it wants another one."""
        if self.static is None or PREFER in request.headers or QUERY_MARK in request.raw_query:
            return None
        if not self.is_negotiated:
            return self.static
        return self.accepted_static(request.headers.get("accept", ""))

    @cached_property
    def is_negotiated(self) -> bool:
        """Return whether `Accept` decides something about the static answer."""
        return any(each.variants for each in self.tables.candidates.listed[:1])

    def accepted_static(self, accept: str) -> MockAnswer | None:
        """Return the static answer that suits an Accept header, None where there is none."""
        tables = self.tables
        is_looked_at = self.protocol or self.dispatcher != "example" or self.limits
        if is_looked_at or tables.broken or tables.constraints or tables.state:
            return None
        listed = tables.candidates.listed
        if not listed:
            return tables.fallback.constant if tables.fallback else None
        if not tables.candidates.is_unconditional or listed[0].is_on_request:
            return None
        try:
            chosen = accepted_variant(listed[0], accept)
        except NotAcceptable:
            return None
        answer = chosen.answer
        return with_vary(answer, chosen) if answer is not None and not answer.delay_ms else None

    def is_quick(self, *, has_quick_state: bool) -> bool:
        """Return whether an answer goes out at once and whole.

        No script, server, delay or slow state is waited for, and there is no fault.
        """
        return self._is_quick if has_quick_state else self._is_quick and self._has_no_state

    @cached_property
    def _is_quick(self) -> bool:
        mock = self.operation.mock
        is_forwarded = mock.fallback is not None and mock.fallback.mode == "proxy"
        examples = self.operation.exchanges
        delays = [mock.delay, *(each.delay for each in examples if each.delay)]
        misbehaves = bool(
            mock.fault
            or any(each.fault or each.callbacks for each in examples)
            or any(each.highest_ms for each in delays)
        )
        waits = self.dispatcher == "script" or misbehaves or is_forwarded
        return not waits and not self.protocol  # another operation may answer there

    @cached_property
    def _has_no_state(self) -> bool:
        tables = self.tables
        is_counted = tables.counts or self.limits
        return tables.state is None and self.dispatcher == "example" and not is_counted

    @cached_property
    def limits(self) -> Sequence[tuple[CallLimit, str]]:
        """Return the rate limits of its calls, each with the key of its record."""
        mock, surface_id = self.operation.mock, self.surface.surface_id
        own, shared = mock.rate_limit, mock.surface_limit
        found = [(own, f"{RATE_LIMIT}{surface_id}/{self.operation.operation_id}")] if own else []
        return [*found, (shared, f"{RATE_LIMIT}{surface_id}")] if shared else found

    @property
    def _place(self) -> Place:
        space = self.space
        return Place(
            space.name.suite_id, space.key, self.surface.surface_id, self.operation.operation_id
        )

    def _build_broken(self, problems: Sequence[str]) -> OperationTables:
        """Return the tables of an operation whose metadata is wrong."""
        return OperationTables(
            pick=dispatchers["example"],
            place=self._place,
            candidates=Candidates([]),
            broken=MockAnswer(
                status=500,
                outcome=CallOutcome.ERROR,
                error_code="mock_metadata_invalid",
                detail=f"the mock of this operation is invalid: {'; '.join(problems[:5])}"[:2_000],
            ),
        )
