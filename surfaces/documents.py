"""API surfaces on the wire (reference: control-plane 9)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Final, NotRequired, TypeAlias, TypedDict

from kernel.errors import FileWarning
from kernel.wire_types import Count, one_of
from readers.archive import content_digest
from surfaces.hydration import surfaces_of
from surfaces.model import (
    CONDITION_SOURCES,
    PARAMETER_SOURCES,
    Adapter,
    Dispatcher,
    Exchange,
    Fallback,
    FallbackMode,
    Mock,
    Operation,
    ParameterConstraint,
    StateRules,
    Surface,
    Transition,
)
from surfaces.samples import (
    SampleBudget,
    Sampler,
    shown_body,
    shown_headers,
    shown_media_type,
)

MAX_DOCUMENTS: Final = 6 * 2**20  # bytes of all surfaces of a suite
_Source: TypeAlias = Annotated[str, one_of(CONDITION_SOURCES)]
ConditionDocument = TypedDict("ConditionDocument", {"from": _Source, "param": str, "value": str})
ConditionDocument.__doc__ = "A part of `when`; all must hold."


class ConstraintDocument(TypedDict):
    name: str
    source: Annotated[str, one_of(PARAMETER_SOURCES)]
    required: bool
    forward: bool
    pattern: NotRequired[str]


class FallbackDocument(TypedDict):
    mode: FallbackMode
    exampleName: NotRequired[str]
    proxyUrl: NotRequired[str]
    status: NotRequired[str]
    mediaType: NotRequired[str]
    body: NotRequired[str]
    headers: NotRequired[dict[str, str]]


class TransitionDocument(TypedDict):
    onExample: NotRequired[str]
    mutationKeyTemplate: NotRequired[str]
    set: dict[str, str]
    delete: list[str]
    increment: dict[str, int]


class StateDocument(TypedDict):
    lookupKeyTemplate: NotRequired[str]
    mutationKeyTemplate: NotRequired[str]
    defaults: dict[str, str]
    transitions: list[TransitionDocument]


class MockDocument(TypedDict):
    """How an operation is simulated; `problems` are why it would answer 500.

    `metadataPath` is missing where the suite has no mock.
    """

    adapter: Adapter
    dispatcher: Dispatcher
    dispatcherRules: NotRequired[str]
    delayMillis: Count
    parameterConstraints: list[ConstraintDocument]
    fallback: NotRequired[FallbackDocument]
    state: NotRequired[StateDocument]
    metadataPath: NotRequired[str]
    resolverUrl: str
    runtimeUrl: str
    problems: list[str]


class ExchangeDocument(TypedDict):
    """An example; bodies and headers of schemas are a deterministic sample."""

    name: str
    sourceArtifact: str
    when: list[ConditionDocument]
    requestHeaders: dict[str, str]
    requestBody: NotRequired[str]
    responseStatus: str
    responseMediaType: NotRequired[str]
    responseHeaders: dict[str, str]
    responseBody: NotRequired[str]


class OperationDocument(TypedDict):
    id: str
    method: str
    name: str
    summary: str
    streaming: NotRequired[Annotated[str, one_of(("client", "server", "both"))]]
    contractPath: NotRequired[str]
    mockPath: NotRequired[str]
    mockUrl: str
    curlCommand: str
    dispatcher: Dispatcher
    mockMetadata: MockDocument
    exchanges: list[ExchangeDocument]


class SurfaceDocument(TypedDict):
    """Operations of one contract or of one folder of mocks."""

    id: str
    title: str
    protocol: str
    mockHost: str
    description: str
    operations: list[OperationDocument]


@dataclass(frozen=True, slots=True, kw_only=True)
class HydratedSurfaces:
    """The API surfaces of a suite, their wire form, and what is wrong in api/ and mock/."""

    surfaces: tuple[Surface, ...] = ()
    documents: tuple[SurfaceDocument, ...] = ()
    warnings: tuple[FileWarning, ...] = ()


def hydrate(files: Mapping[str, bytes], *, suite_id: str, base_url: str) -> HydratedSurfaces:
    """Return the API surfaces of a suite; `base_url` is where its mocks are."""
    surfaces, warnings = surfaces_of(files, suite_id=suite_id, base_url=base_url)
    documents = surface_documents(surfaces, content_digest(files)) if surfaces else []
    shown, is_whole = limit_documents(documents)
    if not is_whole:
        warnings = (*warnings, _TOO_LARGE)
    return HydratedSurfaces(surfaces=surfaces, documents=tuple(shown), warnings=warnings)


_TOO_LARGE: Final = FileWarning(
    code="limit_exceeded",
    detail="the API surfaces are larger than 6 MiB; some examples or operations are not shown",
)


def limit_documents(documents: Sequence[SurfaceDocument]) -> tuple[list[SurfaceDocument], bool]:
    """Return the documents with at most `MAX_DOCUMENTS` bytes, and whether that is all.

    They are part of the snapshot of every run. Examples are left out first, then operations.
    """
    budget = MAX_DOCUMENTS
    made: list[SurfaceDocument] = []
    is_whole = True
    for surface in documents:
        operations: list[OperationDocument] = []
        for operation in surface["operations"]:
            bare: OperationDocument = {**operation, "exchanges": []}
            for candidate in (operation, bare):
                size = len(json.dumps(candidate))
                if size <= budget:
                    budget -= size
                    operations.append(candidate)
                    is_whole &= candidate is operation
                    break
            else:
                is_whole = False
        made.append({**surface, "operations": operations})
    return made, is_whole


def surface_documents(surfaces: Sequence[Surface], digest: str) -> list[SurfaceDocument]:
    """Return the wire form; `digest` is what generated samples depend on."""
    budget = SampleBudget()
    return [
        {
            "id": surface.surface_id,
            "title": surface.title,
            "protocol": surface.protocol,
            "mockHost": surface.mock_host,
            "description": surface.description,
            "operations": [
                _operation(each, surface.surface_id, digest, budget) for each in surface.operations
            ],
        }
        for surface in surfaces
    ]


def _operation(
    operation: Operation, surface_id: str, digest: str, budget: SampleBudget
) -> OperationDocument:
    document: OperationDocument = {
        "id": operation.operation_id,
        "method": operation.method,
        "name": operation.name,
        "summary": operation.summary,
        "mockUrl": operation.mock_url,
        "curlCommand": operation.curl_command,
        "dispatcher": operation.mock.dispatcher,
        "mockMetadata": _mock(operation.mock),
        "exchanges": [
            _exchange(each, Sampler(budget, digest, surface_id, operation.operation_id, each.name))
            for each in operation.exchanges
        ],
    }
    if operation.streaming:
        document["streaming"] = operation.streaming
    if operation.contract_path:
        document["contractPath"] = operation.contract_path
    if operation.mock.mock_path:
        document["mockPath"] = operation.mock.mock_path
    return document


def _mock(mock: Mock) -> MockDocument:
    document: MockDocument = {
        "adapter": mock.adapter,
        "dispatcher": mock.dispatcher,
        "delayMillis": mock.delay_ms,
        "parameterConstraints": [_constraint(each) for each in mock.constraints],
        "resolverUrl": mock.resolver_url,
        "runtimeUrl": mock.runtime_url,
        "problems": list(mock.problems),
    }
    if mock.dispatcher_rules:
        document["dispatcherRules"] = mock.dispatcher_rules
    if mock.fallback:
        document["fallback"] = _fallback(mock.fallback)
    if mock.state:
        document["state"] = _state(mock.state)
    if mock.metadata_path:
        document["metadataPath"] = mock.metadata_path
    return document


def _constraint(constraint: ParameterConstraint) -> ConstraintDocument:
    document: ConstraintDocument = {
        "name": constraint.name,
        "source": constraint.source,
        "required": constraint.required,
        "forward": constraint.forward,
    }
    if constraint.pattern:
        document["pattern"] = constraint.pattern
    return document


def _fallback(fallback: Fallback) -> FallbackDocument:
    document: FallbackDocument = {"mode": fallback.mode}
    if fallback.example_name:
        document["exampleName"] = fallback.example_name
    if fallback.proxy_url:
        document["proxyUrl"] = fallback.proxy_url
    if fallback.status:
        document["status"] = fallback.status
    if fallback.media_type:
        document["mediaType"] = fallback.media_type
    if fallback.body:
        document["body"] = fallback.body
    if fallback.headers:
        document["headers"] = dict(fallback.headers)
    return document


def _state(state: StateRules) -> StateDocument:
    document: StateDocument = {
        "defaults": dict(state.defaults),
        "transitions": [_transition(each) for each in state.transitions],
    }
    if state.lookup_key_template:
        document["lookupKeyTemplate"] = state.lookup_key_template
    if state.mutation_key_template:
        document["mutationKeyTemplate"] = state.mutation_key_template
    return document


def _transition(transition: Transition) -> TransitionDocument:
    document: TransitionDocument = {
        "set": dict(transition.set),
        "delete": list(transition.delete),
        "increment": dict(transition.increment),
    }
    if transition.on_example:
        document["onExample"] = transition.on_example
    if transition.mutation_key_template:
        document["mutationKeyTemplate"] = transition.mutation_key_template
    return document


def _exchange(exchange: Exchange, sampler: Sampler) -> ExchangeDocument:
    request_body = shown_body(exchange.request, sampler)
    response_body = shown_body(exchange.response, sampler)
    document: ExchangeDocument = {
        "name": exchange.name,
        "sourceArtifact": exchange.source_artifact,
        "when": [
            {"from": each.source, "param": each.param, "value": each.value}
            for each in exchange.when
        ],
        "requestHeaders": shown_headers(exchange.request, sampler),
        "responseStatus": exchange.status,
        "responseHeaders": shown_headers(exchange.response, sampler),
    }
    if request_body:
        document["requestBody"] = request_body
    if media_type := shown_media_type(exchange, response_body):
        document["responseMediaType"] = media_type
    if response_body:
        document["responseBody"] = response_body
    return document
