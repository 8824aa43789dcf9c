"""API surfaces on the wire (reference: control-plane 9)."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import (
    Annotated,
    Any,
    Final,
    NotRequired,
    TypeAlias,
    TypedDict,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from kernel.errors import FileWarning
from kernel.wire_types import Count, Ordinal, one_of
from readers.archive import content_digest
from surfaces.behaviors import FaultKind
from surfaces.body_queries import SYNTAXES
from surfaces.hydration import surfaces_of
from surfaces.model import (
    CONDITION_SOURCES,
    OPERATORS,
    Adapter,
    Condition,
    Dispatcher,
    Exchange,
    Mock,
    Operation,
    Surface,
)
from surfaces.operation_rules import PARAMETER_SOURCES, FallbackMode, ValidateMode
from surfaces.samples import (
    MAX_TEXT,
    SampleBudget,
    Sampler,
    shown_body,
    shown_headers,
    shown_media_type,
)

MAX_DOCUMENTS: Final = 6 * 2**20  # bytes of all surfaces of a suite
_ATTRIBUTES: Final = {"parameterConstraints": "constraints"}
_CAPITAL: Final = re.compile("[A-Z]")
_Source: TypeAlias = Annotated[str, one_of(CONDITION_SOURCES)]
_From = TypedDict("_From", {"from": _Source})
_Not = TypedDict("_Not", {"not": NotRequired[bool]})


class ConditionTerms(_From, _Not):
    """What a condition looks at and how; `operator` is missing for `equals`.

    `syntax` is that of a query in `param`. All conditions without `alternative` must hold, and
    all of one number of those that have one.
    """

    param: str
    operator: NotRequired[Annotated[str, one_of(OPERATORS)]]
    syntax: NotRequired[Annotated[str, one_of(SYNTAXES)]]
    alternative: NotRequired[Count]


class ConditionDocument(ConditionTerms):
    """A part of `when`; `value` of `in` is a JSON array of texts."""

    value: str


def condition_terms(condition: Condition) -> ConditionTerms:
    """Return the wire form of a condition but for its value."""
    terms: ConditionTerms = {"from": condition.source, "param": condition.param}
    if condition.operator != "equals":
        terms["operator"] = condition.operator
    if condition.negated:
        terms["not"] = True
    if condition.syntax:
        terms["syntax"] = condition.syntax
    if condition.alternative:
        terms["alternative"] = condition.alternative
    return terms


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


class FaultDocument(TypedDict):
    """How an answer is broken on purpose; `chunks` and `overMillis` are those of `dribble`."""

    kind: FaultKind
    chunks: NotRequired[Count]
    overMillis: NotRequired[Count]


class DelayDocument(TypedDict):
    """Between which bounds a delay is drawn, with `sigma` lognormal around the median."""

    lowestMillis: Count
    highestMillis: Count
    medianMillis: NotRequired[Count]
    sigma: NotRequired[float]


class RateLimitDocument(TypedDict):
    """At most `calls` within `perMillis`; what comes then is 429."""

    calls: Ordinal
    perMillis: Ordinal


class MockDocument(TypedDict):
    """How an operation is simulated; `problems` are why it would answer 500.

    `delayMillis` is the longest that it may wait; `delay` is there where that is drawn.
    `metadataPath` is missing where the suite has no mock, `validate` where the suite leaves it to
    the installation how calls are checked against their contract.
    """

    adapter: Adapter
    dispatcher: Dispatcher
    dispatcherRules: NotRequired[str]
    delayMillis: Annotated[Count, "the longest that an answer waits"]
    delay: NotRequired[DelayDocument]
    fault: NotRequired[FaultDocument]
    rateLimit: NotRequired[RateLimitDocument]
    surfaceLimit: NotRequired[RateLimitDocument]
    validate: NotRequired[ValidateMode]
    parameterConstraints: list[ConstraintDocument]
    fallback: NotRequired[FallbackDocument]
    state: NotRequired[StateDocument]
    metadataPath: NotRequired[str]
    resolverUrl: str
    runtimeUrl: str
    problems: list[str]


class CallbackDocument(TypedDict):
    """A call that follows the answer; all but its method are templates."""

    url: str
    method: str
    headers: dict[str, str]
    body: NotRequired[str]


class ExchangeDocument(TypedDict):
    """An example; bodies and headers of schemas are a deterministic sample.

    A body that is not text is in base64, its first 64 KiB.
    """

    name: str
    sourceArtifact: str
    when: list[ConditionDocument]
    requestHeaders: dict[str, str]
    requestBody: NotRequired[str]
    responseStatus: str
    responseMediaType: NotRequired[str]
    responseHeaders: dict[str, str]
    responseBody: NotRequired[str]
    responseBodyBase64: NotRequired[str]
    fault: NotRequired[FaultDocument]
    delay: NotRequired[DelayDocument]
    callbacks: NotRequired[list[CallbackDocument]]


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
        "mockMetadata": _mock_document(operation.mock),
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


def _mock_document(mock: Mock) -> MockDocument:
    document: MockDocument = wire_of(mock, MockDocument)
    if mock.delay.is_fixed:
        document.pop("delay", None)
    return document


def wire_of(value: Any, kind: Any) -> Any:
    """Return a value of the model in its type on the wire, without what may be missing and is."""
    if is_typeddict(kind):
        return {
            key: wire_of(member, type_)
            for key, attribute, type_, is_required in _members_of(kind)
            if (member := getattr(value, attribute)) or is_required
        }
    if get_origin(kind) is list:
        (item,) = get_args(kind)
        return [wire_of(each, item) for each in value]
    if isinstance(value, tuple):
        return list(value)
    return dict(value) if isinstance(value, Mapping) else value


@cache
def _members_of(document: type) -> tuple[tuple[str, str, Any, bool], ...]:
    """Return key, attribute, type and whether it must be there of each member, those first."""
    found = []
    for key, hint in get_type_hints(document, include_extras=True).items():
        is_required = get_origin(hint) is not NotRequired
        attribute = _ATTRIBUTES.get(key) or _CAPITAL.sub(lambda at: f"_{at[0].lower()}", key)
        attribute = attribute.replace("_millis", "_ms")
        found.append((key, attribute, hint if is_required else get_args(hint)[0], is_required))
    return tuple(sorted(found, key=lambda member: not member[3]))


def _exchange(exchange: Exchange, sampler: Sampler) -> ExchangeDocument:
    request_body = shown_body(exchange.request, sampler)
    response_body = shown_body(exchange.response, sampler)
    document: ExchangeDocument = {
        "name": exchange.name,
        "sourceArtifact": exchange.source_artifact,
        "when": [{**condition_terms(each), "value": each.value} for each in exchange.when],
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
    if content := exchange.response.content:
        document["responseBodyBase64"] = b64encode(content[:MAX_TEXT]).decode()
    if exchange.fault:
        document["fault"] = wire_of(exchange.fault, FaultDocument)
    if exchange.delay:
        document["delay"] = wire_of(exchange.delay, DelayDocument)
    if exchange.callbacks:
        document["callbacks"] = wire_of(exchange.callbacks, list[CallbackDocument])
    return document
