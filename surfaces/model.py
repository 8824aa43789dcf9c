"""API surfaces of a suite: operations, their mocks, and the exchanges that mocks answer with.

The values are complete (every default is filled in) and typed, so that a mock engine can compile
them; `documents` has their wire form. (reference: control-plane 6.2, 6.3, 9, 18)
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Final, Literal, Protocol

from surfaces.behaviors import Callback, CallLimit, Delay, MockFault
from surfaces.operation_rules import (
    PARAMETER_SOURCES,
    Fallback,
    ParameterConstraint,
    StateRules,
    ValidateMode,
)
from surfaces.value_nodes import ValueNode

Adapter = Literal["rest", "grpc", "async"]
Dispatcher = Literal["example", "script", "sequence", "random"]
ADAPTERS: Final = ("rest", "grpc", "async")
DISPATCHERS: Final = ("example", "script", "sequence", "random")
CONDITION_SOURCES: Final = (*PARAMETER_SOURCES, "cookie", "state")
OPERATORS: Final = ("equals", "matches", "contains", "absent", "in", "gt", "gte", "lt", "lte")
SHARED_ROUTES: Final = ("GraphQL", "SOAP")  # protocols of many operations at one method and path


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """A part of `when`: what stands at `param` of `source` must suit `operator` and `value`.

    `value` is a text, for `in` a JSON array of texts, for `absent` `true` or `false`. `syntax` is
    that of a query in `param` (`jsonPath`, `xpath`), otherwise "". Of the conditions that have an
    `alternative`, counted from 1, all of one number must hold; those of 0 always must.
    """

    source: str
    param: str
    value: str
    operator: str = "equals"
    negated: bool = False
    syntax: str = ""
    alternative: int = 0

    @property
    def is_equality(self) -> bool:
        """Return whether exactly one text suits it."""
        return self.operator == "equals" and not (self.negated or self.syntax)

    @property
    def sample(self) -> str | None:
        """Return a value that suits it, None where none is known."""
        if self.negated or self.syntax or self.operator in ("absent", "matches"):
            return None
        if self.operator == "in":
            return str(json.loads(self.value)[0])
        step = {"gt": 1, "lt": -1}.get(self.operator)
        return str(math.floor(float(self.value)) + step) if step else self.value


def alternatives_of(conditions: Sequence[Condition]) -> list[tuple[Condition, ...]]:
    """Return the sets of conditions of which one must hold: one, but for `anyOf`."""
    numbers = sorted({each.alternative for each in conditions if each.alternative})
    return [
        tuple(each for each in conditions if each.alternative in (0, number))
        for number in numbers or [0]
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """Headers and body in literal form, in schema form (`*_node`), or mixed.

    `body` is None without a literal body, `content` holds the bytes of one that is not text.
    """

    headers: Mapping[str, str] = field(default_factory=dict)
    body: str | None = None
    content: bytes | None = None
    headers_node: ValueNode | None = None
    body_node: ValueNode | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ContractPlace:
    """What in a contract an example is made from.

    `response` is the key of `responses` (`404`, `4XX`, `default`), `media_type` the key of its
    content, which may be a range, and `example` the name there. `is_on_request`: only callers
    that ask for it get it. `fresh` makes another body by the schema, None where there is none.
    """

    response: str
    media_type: str = ""
    example: str = ""
    is_on_request: bool = False
    fresh: Callable[[Random], str | bytes | None] = field(
        default=lambda _randomness: None, compare=False, repr=False
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """A named example: when it answers, what a request looks like, and the response.

    `status` is a decimal text; `media_type` may be "" (then chosen by the body). A `fault` or
    `delay` of its own stands for that of the operation.
    """

    name: str
    source_artifact: str
    when: tuple[Condition, ...] = ()
    request: Message = field(default_factory=Message)
    response: Message = field(default_factory=Message)
    status: str = "200"
    media_type: str = ""
    line: int = 0
    declared: ContractPlace | None = None
    fault: MockFault | None = None
    delay: Delay | None = None
    callbacks: tuple[Callback, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SequenceRules:
    """The names in turn; with `once`, the last one stays."""

    names: tuple[str, ...]
    once: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RandomRules:
    seed: int | None
    weights: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptRules:
    """A Starlark expression, or a text that defines `dispatch(request, state)`."""

    source: str
    defines_function: bool


Rules = SequenceRules | RandomRules | ScriptRules


@dataclass(frozen=True, slots=True, kw_only=True)
class Mock:
    """How an operation is simulated.

    `validate` is how calls are checked against their contract, None where no file says so.
    `surface_limit` is one of all operations of the surface together. `problems` are the reasons
    why it would answer 500 `mock_metadata_invalid`. `mock_path` and `metadata_path` are "" for an
    operation of a contract that has no mock.
    """

    adapter: Adapter
    resolver_url: str
    runtime_url: str
    dispatcher: Dispatcher = "example"
    dispatcher_rules: str = ""
    rules: Rules | None = None
    delay: Delay = field(default_factory=Delay)
    fault: MockFault | None = None
    rate_limit: CallLimit | None = None
    surface_limit: CallLimit | None = None
    validate: ValidateMode | None = None
    constraints: tuple[ParameterConstraint, ...] = ()
    fallback: Fallback | None = None
    state: StateRules | None = None
    mock_path: str = ""
    metadata_path: str = ""
    problems: tuple[str, ...] = ()

    @property
    def delay_ms(self) -> int:
        """Return how long an answer waits at most."""
        return self.delay.highest_ms


class ContractExamples(Protocol):
    """What a contract says that an operation answers; made when asked for."""

    def exchanges(self) -> tuple[Exchange, ...]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """An operation; `path` is the template of a REST path, the channel or the method's name.

    `streaming` is `client`, `server`, `both` or "". `mock_url` and `curl_command` are absolute.
    `exchanges` are those of mock/; what answers is `surfaces.examples_of(operation)`.
    """

    operation_id: str
    method: str
    name: str
    path: str
    summary: str
    mock: Mock
    mock_url: str
    curl_command: str
    contract_path: str = ""
    streaming: str = ""
    exchanges: tuple[Exchange, ...] = ()
    contract_examples: ContractExamples | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Surface:
    surface_id: str
    title: str
    protocol: str
    mock_host: str
    description: str
    operations: tuple[Operation, ...]


def adapter_of(protocol: str) -> Adapter:
    """Return the adapter of a protocol: `grpc`, `async`, otherwise `rest`."""
    word = protocol.casefold()
    if word == "grpc":
        return "grpc"
    return "async" if word in _ASYNC else "rest"


_ASYNC: Final = frozenset(
    {"async", "kafka", "kafka-secure", "mqtt", "mqtts", "mqtt5", "secure-mqtt", "nats", "tcp"}
    | {"amqp", "amqps", "amqp1", "udp", "websocket", "websockets", "ws", "wss"}
)
PROTOCOLS: Final = ("REST", "HTTP", "HTTPS", "gRPC", *SHARED_ROUTES, *sorted(_ASYNC))


def has_own_answers(operation: Operation) -> bool:
    """Return whether the mock of an operation answers, and not the examples of its contract."""
    mock = operation.mock
    return bool(operation.exchanges) or mock.fallback is not None or mock.dispatcher != "example"


def examples_of(operation: Operation) -> tuple[Exchange, ...]:
    """Return the examples of the mock; without any, those implied by its contract.

    A mock without examples that has a fallback or rules of its own keeps to these. Those of
    a contract are made anew by each call and depend on its files only.
    """
    if has_own_answers(operation) or operation.contract_examples is None:
        return operation.exchanges
    return operation.contract_examples.exchanges()
