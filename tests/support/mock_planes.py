"""Data planes of mocks in a test: suites from files, a source that can change, ASGI requests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import httpx

from mocks.engine.engine import Engine
from mocks.engine.nearest import nearest
from mocks.engine.tables import compile_space
from mocks.journal.memory import MemoryJournal
from mocks.model.ports import SpaceContent
from mocks.model.spaces import SpaceName
from mocks.plane.asgi import MockPlane
from mocks.plane.setup import PlaneSetup
from mocks.spaces import Spaces, SpacesSetup
from mocks.state.memory import MemoryState
from surfaces import surfaces_of
from tests.support.early_first import EarlyFirst
from tests.support.raw_calls import serve
from tests.support.served_mocks import NoProxy, NoScripts

OPENAPI = """
openapi: 3.0.3
info: {title: Orders, version: "1"}
paths:
  /orders:
    get: {operationId: listOrders, responses: {"200": {description: ok}}}
    post: {operationId: createOrder, responses: {"201": {description: ok}}}
  /orders/{id}:
    get: {operationId: getOrder, responses: {"200": {description: ok}}}
    delete: {operationId: cookieOrder, responses: {"200": {description: ok}}}
    put: {operationId: slowOrder, responses: {"200": {description: ok}}}
  /empty:
    get: {operationId: emptyAnswer, responses: {"204": {description: none}}}
  /picky:
    get: {operationId: pickyOrder, responses: {"200": {description: ok}}}
"""
MOCKS = {
    "listOrders": 'examples: {all: {response: {headers: {X-Total: "2"}, body: [1, 2]}}}',
    "createOrder": """
spec:
  parameterConstraints: [{name: x-tenant, source: header, forward: true}]
  state:
    mutationKeyTemplate: orders
    defaults: {count: "0"}
    transitions: [{onExample: made, increment: {count: 1}}]
examples:
  made: {response: {status: "201", body: {made: "{{state.count}}"}}}
""",
    "getOrder": """
examples:
  one: {when: [{from: path, param: id, value: "1"}], response: {body: {id: 1}}}
""",
    "cookieOrder": """
examples:
  gone:
    response:
      headers:
        Set-Cookie: a=b
        Clear-Site-Data: '"*"'
        Strict-Transport-Security: max-age=1
        Service-Worker-Allowed: /
        Content-Security-Policy: default-src *
        X-Partita-Mock-Example: other
        X-Own: kept
      body: {gone: true}
""",
    "slowOrder": """
spec: {delayMillis: 1000}
examples: {late: {response: {body: {late: true}}}}
""",
    "emptyAnswer": 'examples: {none: {response: {status: "204"}}}',
    "pickyOrder": """
spec:
  parameterConstraints: [{name: q, source: query, required: true, pattern: "^[a-z]+$"}]
examples:
  seen:
    response:
      body:
        cookies: "{{request.headers.cookie}}"
        secret: "{{request.headers.x-partita-mock-secret}}"
        q: "{{request.query.q}}"
""",
}
PROTO = """
syntax = "proto3";
package pay;
message Order { string id = 1; }
message Receipt { string state = 1; }
service Payments { rpc Capture(Order) returns (Receipt); }
"""
CAPTURE = """
examples:
  refused: {when: [{from: body, param: id, value: "0"}], response: {status: "5"}}
  paid: {response: {body: {state: PAID}}}
"""
ASYNC = """
asyncapi: 2.6.0
info: {title: Events, version: "1"}
channels:
  order/made: {publish: {operationId: orderMade, message: {payload: {type: object}}}}
"""
MADE = "examples: {seen: {response: {body: {seen: true}}}}"


def files(**changed: str) -> dict[str, bytes]:
    """Return the files of the suite `orders`; `changed` replaces the mocks of operations."""
    texts = {"api/orders.openapi.yaml": OPENAPI, "api/pay.proto": PROTO}
    texts["api/events.asyncapi.yaml"] = ASYNC
    mocks = {f"orders/{name}": text for name, text in {**MOCKS, **changed}.items()}
    for path, text in {**mocks, "pay/Capture": CAPTURE, "events/orderMade": MADE}.items():
        surface, _, operation_id = path.partition("/")
        spec, _, examples = text.partition("examples:")
        artifact = next(each for each in texts if each.startswith(f"api/{surface}."))
        head = f"metadata: {{operationId: {operation_id}, sourceArtifact: {artifact}}}"
        texts[f"mock/{path}.metadata.yaml"] = f"kind: MockOperation\n{head}\n{spec.strip()}\n"
        texts[f"mock/{path}.yaml"] = f"examples:{examples}"
    return {path: text.encode() for path, text in texts.items()}


def content_of(named: Mapping[str, bytes], *, generation: str = "1") -> SpaceContent:
    surfaces, _ = surfaces_of(named, suite_id="orders", base_url="http://mocks.test")
    return SpaceContent(
        suite_id="orders",
        title="Orders",
        repository="test/orders",
        generation=generation,
        surfaces=surfaces,
        files=named,
    )


class ChangingSource:
    """Suites and runs that a test changes. `asked` counts the questions for generations."""

    def __init__(self, *names: str) -> None:
        content = content_of(files())
        self.contents: dict[str, SpaceContent] = dict.fromkeys(names or ("orders",), content)
        self.asked = 0
        self.loaded: list[str] = []
        self.error: Exception | None = None
        self.before_load: Callable[[], object] = lambda: None

    def load(self, name: SpaceName) -> SpaceContent | None:
        self.loaded.append(str(name))
        self.before_load()
        return self.contents.get(str(name))

    def generations(self, names: Sequence[SpaceName]) -> Mapping[SpaceName, str]:
        self.asked += 1
        if self.error is not None:
            raise self.error
        return {
            name: self.contents[str(name)].generation
            for name in names
            if str(name) in self.contents
        }


class Planes:
    """A plane over memory with its parts, and requests to it, by ASGI or early where it can be."""

    def __init__(
        self,
        source: ChangingSource | None = None,
        *,
        asks_early: bool = False,
        checks: Mapping[str, Any] | None = None,
        proxy: Any = None,
        **setup: Any,
    ) -> None:
        self.source = source or ChangingSource("orders", "orders@run-1")
        self.resets: dict[str, dict[str, int]] = {}
        self.counted: list[tuple[str, str, str]] = []
        self.state = MemoryState()
        self.journal = MemoryJournal(lambda text: text.replace("hunter2", "***"))
        self.spaces = Spaces(
            SpacesSetup(
                source_of=lambda _kind: self.source,
                compile=compile_space,
                resets=lambda names: {name: self.resets.get(name, {}) for name in names},
                state=self.state,
                is_away=lambda error: isinstance(error, ConnectionError),
            )
        )
        self.engine = Engine(
            state=self.state, scripts=NoScripts(), proxy=proxy or NoProxy(), **(checks or {})
        )
        self.plane = MockPlane(
            PlaneSetup(
                spaces=self.spaces,
                engine=self.engine,
                journal=self.journal,
                meter=self._meter,
                nearest=nearest,
                **setup,
            )
        )

        self.early = EarlyFirst(self.plane)
        self.application = self.early if asks_early else self.plane
        self.port = 0  # of a server that speaks HTTP/2, which is asked then

    def _meter(self, adapter: str, dispatcher: str, outcome: str) -> Callable[[float], object]:
        return lambda _ms: self.counted.append((adapter, dispatcher, outcome))

    async def ask(self, method: str, path: str, **more: Any) -> httpx.Response:
        transport: httpx.AsyncBaseTransport = httpx.ASGITransport(app=self.application)
        base = "http://mocks.test"
        if self.port:
            transport = httpx.AsyncHTTPTransport(verify=False, http1=False, http2=True)
            base = f"http://127.0.0.1:{self.port}"
            more["headers"] = {"host": "mocks.test"} | dict(more.get("headers") or {})
        async with httpx.AsyncClient(transport=transport, base_url=base) as client:
            client.headers.pop("user-agent")
            return await client.request(method, path, **more)


@asynccontextmanager
async def planes(
    source: ChangingSource | None = None,
    *,
    asks_early: bool = False,
    by_http2: bool = False,
    **setup: Any,
) -> AsyncIterator[Planes]:
    made = Planes(source, asks_early=asks_early, **setup)
    if by_http2:
        async with serve(made.plane) as made.port:
            yield made
    else:
        yield made
    await asyncio.to_thread(made.spaces.stop)
