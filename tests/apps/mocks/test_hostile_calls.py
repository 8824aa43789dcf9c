"""Hostile calls of mocks: whatever comes, the answer is one of the plane's, soon, and never a 500.

A mock may say 500 itself (`mock_metadata_invalid`, `mock_script_failed`); `internal_error` is ours.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
import requests
import schemathesis
import yaml
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.core.result import Ok

from mocks.engine.engine import Engine
from mocks.engine.nearest import nearest
from mocks.engine.tables import compile_space
from mocks.journal.memory import MemoryJournal
from mocks.model.ports import SpaceContent
from mocks.plane.asgi import MockPlane
from mocks.plane.setup import PlaneSetup
from mocks.proxies.guarded import GuardedProxy
from mocks.scripts.pool import ScriptPool
from mocks.spaces import Spaces, SpacesSetup
from mocks.state.memory import MemoryState
from surfaces import surfaces_of
from tests.support.early_first import EarlyFirst
from tests.support.grpc_mocks import Suites
from tests.support.raw_calls import RawAnswer, RawCall, call, served

OPENAPI = """
openapi: 3.0.3
info: {title: Hostile, version: "1"}
paths:
  /echo/{id}: {post: {operationId: echo, responses: {"200": {description: ok}}}}
  /same: {get: {operationId: same, responses: {"200": {description: ok}}}}
  /state/{key}: {post: {operationId: state, responses: {"200": {description: ok}}}}
  /schema: {post: {operationId: schema, responses: {"200": {description: ok}}}}
  /script: {post: {operationId: script, responses: {"200": {description: ok}}}}
  /loop: {post: {operationId: loop, responses: {"200": {description: ok}}}}
  /bomb: {post: {operationId: bomb, responses: {"200": {description: ok}}}}
  /proxy: {post: {operationId: proxy, responses: {"200": {description: ok}}}}
  /heavy: {post: {operationId: heavy, responses: {"200": {description: ok}}}}
"""
EVERYTHING = (
    "{{request.body}} {{request.rawBody}} {{request.query.q || request.headers.x-a}} "
    "{{request.path.id}} {{request.body.a.b[0].c}} {{request.body['x y']}} {{state.n}}"
)
MOCKS = {
    "echo": f"""
spec:
  parameterConstraints:
    - {{name: q, source: query, pattern: "^(a+)+$"}}
    - {{name: x-deep, source: header, pattern: "(x*)*(y*)*(z|zz)*!", forward: true}}
    - {{name: "a.b[0].c", source: body, pattern: "(.*a){{12}}"}}
  state:
    lookupKeyTemplate: "{{{{request.path.id}}}}"
    transitions: [{{onExample: all, set: {{n: "{{{{request.rawBody}}}}"}}}}]
examples:
  some:
    when: [{{from: body, param: "a.b[0].c", value: x}}, {{from: query, param: q, value: y}}]
    response: {{body: some}}
  all: {{response: {{headers: {{X-Echo: "{EVERYTHING}"}}, body: "{EVERYTHING}"}}}}
""",
    "same": "examples: {same: {response: {body: {same: true}}}}",
    "state": """
spec:
  state:
    mutationKeyTemplate: "{{request.path.key}}{{request.body.k}}"
    transitions: [{increment: {n: 1}, set: {last: "{{request.rawBody}}"}}]
examples: {made: {response: {body: "{{state}} {{state.last}}"}}}
""",
    "schema": """
examples:
  typed:
    requestSchema:
      body: {type: object, required: [n], properties: {n: {type: integer, minimum: 1},
             s: {type: string, pattern: "^(a|a)*$", maxLength: 10},
             l: {type: array, items: {type: string}}}}
    responseSchema:
      body: {type: object, properties: {n: {type: integer, resolve: {path: request.body.n}},
             t: {type: string, template: "{{request.rawBody}}"},
             u: {type: string, gen: {kind: uuid}}}}
""",
    "script": """
spec: {dispatcher: script, dispatcherRules: 'request.body["name"] if request.body else None'}
examples: {a: {response: {body: a}}}
""",
    "loop": """
spec: {dispatcher: script, dispatcherRules: "[x for x in range(1000000000)]"}
examples: {a: {response: {body: a}}}
""",
    "bomb": """
spec: {dispatcher: script, dispatcherRules: "'a' * 1000000000"}
examples: {a: {response: {body: a}}}
""",
    "proxy": """
spec: {fallback: {mode: proxy, proxyUrl: "http://127.0.0.1:9/"}}
examples: {never: {when: [{from: query, param: never, value: never}], response: {body: a}}}
""",
    "heavy": """
spec:
  parameterConstraints: [{name: q, source: query, pattern: "(a{1,30}){1,30}"}]
examples: {a: {response: {body: "%s"}}}
""" % ("{{request.rawBody}}" * 500),
}  # fmt: skip
OURS = frozenset({"mock_metadata_invalid", "mock_script_failed"})
BASE = b"/mocks/rest/hostile/hostile"


def content() -> SpaceContent:
    texts = {"api/hostile.openapi.yaml": OPENAPI}
    for name, text in MOCKS.items():
        spec, _, examples = text.partition("examples:")
        head = f"metadata: {{operationId: {name}, sourceArtifact: api/hostile.openapi.yaml}}"
        texts[f"mock/hostile/{name}.metadata.yaml"] = (
            f"kind: MockOperation\n{head}\n{spec.strip()}\n"
        )
        texts[f"mock/hostile/{name}.yaml"] = f"examples:{examples}"
    files = {path: text.encode() for path, text in texts.items()}
    surfaces, _ = surfaces_of(files, suite_id="hostile", base_url="http://mocks.test")
    return SpaceContent(
        suite_id="hostile", title="Hostile", repository="", generation="1", surfaces=surfaces,
        files=files,
    )  # fmt: skip


@pytest.fixture(params=["by ASGI", "early"])
async def plane(request: pytest.FixtureRequest) -> AsyncIterator[MockPlane | EarlyFirst]:
    suites, state, scripts = Suites({"hostile": content()}), MemoryState(), ScriptPool()
    spaces = Spaces(SpacesSetup(source_of=lambda _kind: suites, compile=compile_space))
    made = MockPlane(
        PlaneSetup(
            spaces=spaces,
            engine=Engine(state=state, scripts=scripts, proxy=GuardedProxy()),
            journal=MemoryJournal(),
            nearest=nearest,
        )
    )
    yield EarlyFirst(made) if request.param == "early" else made
    await asyncio.to_thread(spaces.stop)
    scripts.close()


def check(answer: RawAnswer) -> None:
    assert 200 <= answer.status < 600
    document = answer.body[:200].decode(errors="replace")
    if answer.status >= 500:
        assert answer.error in OURS | {"mock_proxy_refused", "mock_proxy_failed"}, document
    assert "Traceback" not in document


def nested(depth: int) -> bytes:
    return b'{"a":' * depth + b"1" + b"}" * depth


def post(path: bytes, body: bytes = b"", **more: Any) -> RawCall:
    return RawCall("POST", BASE + path, chunks=[body] if body else (), **more)


MANY = b"&".join(b"q%d=%d" % (n, n) for n in range(20_000))
WIDE = json.dumps(dict.fromkeys(map(str, range(50_000)), 1)).encode()
FORM = [(b"content-type", b"application/x-www-form-urlencoded")]
CORPUS: dict[str, tuple[RawCall, set[int]]] = {
    "same": (RawCall(raw_path=BASE + b"/same"), {200}),
    "huge query": (RawCall(raw_path=BASE + b"/same", query=b"q=" + b"a" * 1_000_000), {200}),
    "many fields": (RawCall(raw_path=BASE + b"/same", query=MANY), {200}),
    "query of marks": (post(b"/echo/1", query=b"&=&=?%&%zz&q=%ff&=%00;" * 500), {200, 400}),
    "header flood": (
        post(b"/echo/1", headers=[(b"x-%d" % n, b"v" * 50) for n in range(2_000)]), {200},
    ),
    "one header, many times": (post(b"/echo/1", headers=[(b"x-a", b"v")] * 5_000), {200}),
    "long header": (post(b"/echo/1", headers=[(b"x-a", b"v" * 1_000_000)]), {413}),
    "header of marks": (post(b"/echo/1", headers=[(b"x-a", bytes(range(1, 256)))]), {200}),
    "pattern, nested quantifiers": (post(b"/echo/1", query=b"q=" + b"a" * 8_000 + b"!"), {400}),
    "pattern, of a header": (post(b"/echo/1", headers=[(b"x-deep", b"xyz" * 30_000)]), {400}),
    "pattern, of a body": (
        post(b"/echo/1", b'{"a":{"b":[{"c":"' + b"a" * 100_000 + b'"}]}}'), {413}),
    "pattern, repeated repeats": (post(b"/heavy", query=b"q=" + b"a" * 8_000), {200, 500}),
    "template that multiplies": (post(b"/heavy", b"x" * 1_000_000), {400, 413, 422, 500}),
    "deep JSON": (post(b"/echo/1", nested(100_000)), {413}),
    "deep JSON in a schema": (post(b"/schema", nested(100_000)), {400}),
    "deep JSON in a script": (post(b"/script", nested(900)), {500}),
    "wide JSON": (post(b"/echo/1", WIDE), {413}),
    "long number": (post(b"/schema", b'{"n":' + b"9" * 100_000 + b"}"), {200, 400}),
    "long exponent": (post(b"/schema", b'{"n":1e999999999}'), {200, 400}),
    "lone surrogate": (post(b"/echo/1", b'{"a":"\\ud800"}'), {200}),
    "no UTF-8": (post(b"/echo/1", b"\xff\xfe\x00\x80" * 100), {200}),
    "NULs": (post(b"/echo/%00", b"\0" * 1000, query=b"q=%00"), {200, 400}),
    "body too large": (post(b"/echo/1", b"x" * (10 * 2**20 + 1)), {413}),
    "body of small pieces": (
        RawCall("POST", BASE + b"/echo/1", chunks=[b"x"] * 20_000), {413},
    ),
    "length that lies": (
        post(b"/echo/1", b"x", headers=[(b"content-length", b"9" * 30)]), {413},
    ),
    "length that is none": (
        post(b"/echo/1", b"x", headers=[(b"content-length", b"-1")]), {200, 400},
    ),
    "form of many fields": (post(b"/echo/1", MANY, headers=FORM), {413}),
    "form of marks": (post(b"/echo/1", b"%&%zz=&=%ff" * 1000, headers=FORM), {413}),
    "loop": (post(b"/loop"), {500}),
    "bomb": (post(b"/bomb"), {500}),
    "script, no body": (post(b"/script", b"[]"), {404, 500}),
    "script, name from outside": (post(b"/script", b'{"name": "nope"}'), {500}),
    "script, huge name": (post(b"/script", b'{"name": "' + b"x" * 100_000 + b'"}'), {500}),
    "proxy to the inside": (post(b"/proxy", b"x" * 1000), {502}),
    "state key of marks": (post(b"/state/%0d%0a%00%ff", b'{"k": {"a": []}}'), {200}),
    "long state key": (post(b"/state/" + b"k" * 100_000, b"{}"), {200, 400, 413, 422}),
    "large record": (post(b"/state/k", b"x" * 200_000), {200, 400, 413, 422}),
    "dots": (RawCall(raw_path=BASE + b"/../../../etc/passwd"), {404}),
    "encoded dots": (RawCall(raw_path=BASE + b"/%2e%2e/%2e%2e/same"), {404}),
    "double slashes": (RawCall(raw_path=b"//mocks//rest//hostile//hostile//same"), {404}),
    "invalid escapes": (RawCall("POST", raw_path=BASE + b"/echo/%zz%%%"), {200, 404}),
    "overlong UTF-8": (RawCall("POST", raw_path=BASE + b"/echo/%c0%af"), {200, 404}),
    "long path": (RawCall(raw_path=BASE + b"/a" * 50_000), {404}),
    "long segment": (RawCall("POST", raw_path=BASE + b"/echo/" + b"a" * 500_000), {404, 413}),
    "no space": (RawCall(raw_path=b"/mocks/rest//x/y"), {404}),
    "space of marks": (RawCall(raw_path=b"/mocks/rest/%00@%0a+~~~/x/y"), {404}),
    "long space": (RawCall(raw_path=b"/mocks/rest/" + b"a" * 100_000 + b"/x/y"), {404}),
    "unknown kind": (RawCall(raw_path=b"/mocks/soap/hostile/hostile/same"), {404}),
    "only the prefix": (RawCall(raw_path=b"/mocks/"), {404}),
    "odd method": (RawCall("PROPFIND", raw_path=BASE + b"/same"), {404, 405}),
    "method of marks": (RawCall("G\u00c4T", raw_path=BASE + b"/same"), {404, 405}),
    "preflight of marks": (
        RawCall("OPTIONS", raw_path=BASE + b"/same",
                headers=[(b"origin", b"\xff"),
                         (b"access-control-request-headers", b"\xff," * 5000)]),
        {200, 204},
    ),
    "resolver with a path of marks": (
        RawCall("POST", b"/internal/mock-data/hostile/hostile/echo",
                headers=[(b"x-partita-original-path", b"/mocks/rest/%zz/?%"),
                         (b"x-partita-original-method", b"\xff")]),
        {200},
    ),
    "cookies": (post(b"/echo/1", headers=[(b"cookie", b"=;;a=b;" * 5_000)]), {200}),
    "trace context of marks": (
        RawCall(raw_path=BASE + b"/same", headers=[(b"traceparent", b"\xff" * 500)]), {200},
    ),
    "request id of marks": (
        RawCall(raw_path=BASE + b"/same", headers=[(b"x-request-id", b"a\tb" * 500)]), {200},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CORPUS)
async def test_a_hostile_call_is_answered_soon(plane: MockPlane, case: str):
    asked, statuses = CORPUS[case]
    await call(plane, RawCall(raw_path=BASE + b"/same"))  # the space is loaded
    begun = time.process_time()
    answer = await call(plane, asked)
    assert time.process_time() - begun < 2
    check(answer)
    assert answer.status in statuses, (answer.status, answer.body[:300])
    after = await call(plane, RawCall(raw_path=BASE + b"/same"))
    assert after.status == 200


WORDS = st.one_of(
    st.binary(max_size=40),
    st.sampled_from([b"echo", b"same", b"1", b"%00", b"%2f", b"..", b"%", b"{{state}}", b""]),
)
PATHS = st.lists(WORDS, max_size=5).map(b"/".join)
NAMES = st.sampled_from(
    [b"x-a", b"x-deep", b"cookie", b"content-type", b"content-length", b"origin", b"traceparent",
     b"x-request-id", b"host", b"x-partita-mock-secret", b"accept-encoding"]
)  # fmt: skip
JSON_VALUES: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=12,
)  # fmt: skip
BODIES = st.one_of(
    st.binary(max_size=200), JSON_VALUES.map(lambda value: json.dumps(value).encode())
)
PREFIXES = st.sampled_from(
    [BASE + b"/", BASE + b"/echo/", b"/mocks/rest/", b"/mocks/", b"/mocks/async/hostile/",
     b"/mocks/ready/hostile/", b"/internal/mock-data/hostile/hostile/"]
)  # fmt: skip
OPERATIONS = st.sampled_from([b"/echo/1", b"/state/k", b"/schema", b"/script", b"/proxy"])
RELAXED = settings(
    max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


CALLS = st.builds(
    RawCall,
    method=st.sampled_from(["GET", "POST", "HEAD", "OPTIONS", "PUT", "X"]),
    raw_path=st.tuples(PREFIXES, PATHS).map(b"".join),
    query=st.binary(max_size=60),
    headers=st.lists(st.tuples(NAMES, st.binary(max_size=60)), max_size=6),
    chunks=st.lists(BODIES.filter(bool), max_size=2),
)


@RELAXED
@given(asked=CALLS)
async def test_no_drawn_request_is_an_internal_error(plane: MockPlane, asked: RawCall):
    check(await call(plane, asked))


@pytest.mark.slow
@RELAXED
@given(path=OPERATIONS, body=BODIES, query=st.text(max_size=30), form=st.booleans())
async def test_no_drawn_body_is_an_internal_error(
    plane: MockPlane, path: bytes, body: bytes, query: str, form: bool
):
    headers = FORM if form else ()
    check(await call(plane, post(path, body, query=query.encode(), headers=headers)))


def as_raw(case: Any) -> RawCall:
    """Return a case of schemathesis as the plane gets it."""
    arguments = case.as_transport_kwargs(base_url="http://mocks.test/mocks/rest/hostile/hostile")
    prepared = requests.Request(
        **{key: arguments[key] for key in SENT if key in arguments}
    ).prepare()
    path, _, query = prepared.path_url.partition("?")
    body = prepared.body.encode() if isinstance(prepared.body, str) else prepared.body
    headers = [
        (name.encode("latin-1", "replace").lower(), str(value).encode("latin-1", "replace"))
        for name, value in prepared.headers.items()
        if name.lower() != "content-length"
    ]
    return RawCall(
        str(prepared.method), path.encode(), query.encode(), headers, [body] if body else []
    )


SENT = ("method", "url", "params", "headers", "cookies", "data", "json", "files")
DOCUMENT = yaml.safe_load(OPENAPI)
for item in DOCUMENT["paths"].values():
    for described in item.values():
        described["parameters"] = [
            {"name": "q", "in": "query", "schema": {"type": "string"}},
            {"name": "x-deep", "in": "header", "schema": {"type": "string"}},
        ]
        described["requestBody"] = {"content": {"application/json": {"schema": {}}}}
for path, item in DOCUMENT["paths"].items():
    for described in item.values():
        described["parameters"] += [
            {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
            for name in ("id", "key")
            if f"{{{name}}}" in path
        ]


@pytest.mark.slow
@pytest.mark.parametrize("mode", list(GenerationMode), ids=lambda mode: mode.value)
async def test_no_request_that_schemathesis_draws_is_an_internal_error(
    plane: MockPlane, mode: GenerationMode
):
    for found in schemathesis.openapi.from_dict(DOCUMENT).get_all_operations():
        assert isinstance(found, Ok)
        operation = found.ok()
        if operation.path not in ("/loop", "/bomb"):
            for asked in drawn(operation, mode):
                check(await call(plane, asked))


def drawn(operation: Any, mode: GenerationMode) -> list[RawCall]:
    calls: list[RawCall] = []

    @settings(max_examples=5, deadline=None, database=None, derandomize=True,
              phases=[Phase.generate], suppress_health_check=list(HealthCheck))  # fmt: skip
    @given(case=operation.as_strategy(generation_mode=mode))
    def keep(case: Any) -> None:
        calls.append(as_raw(case))

    keep()
    assert calls
    return calls


@pytest.mark.slow
async def test_calls_of_others_are_answered_beside_hostile_ones(plane: MockPlane):
    """Eight at once, of scripts that never end and bodies that take long; the loop runs on."""
    await call(plane, RawCall(raw_path=BASE + b"/same"))
    hostile = [post(b"/loop"), post(b"/bomb"), post(b"/heavy", b"x" * 1_000_000),
               post(b"/echo/1", nested(100_000))]  # fmt: skip
    tasks = [asyncio.create_task(call(plane, each)) for each in hostile * 2]
    answered = 0
    while not all(task.done() for task in tasks):
        assert (await call(plane, RawCall(raw_path=BASE + b"/same"))).status == 200
        answered += 1
        await asyncio.sleep(0)
    assert answered > 8
    for answer in await asyncio.gather(*tasks):
        check(answer)


WIRE: dict[str, bytes] = {
    "chunks": b"4\r\nabcd\r\n1\r\ne\r\n0\r\n\r\n",
    "chunk extensions": b"4;" + b"x" * 5000 + b"\r\nabcd\r\n0\r\n\r\n",
    "chunk size of marks": b"zz\r\nabcd\r\n0\r\n\r\n",
    "chunk size too large": b"ffffffffffffffffffff\r\nabcd\r\n0\r\n\r\n",
    "negative chunk": b"-1\r\nabcd\r\n0\r\n\r\n",
    "trailers": b"1\r\na\r\n0\r\nX-T: 1\r\nX-T: 2\r\n\r\n",
}
LINES: dict[str, bytes] = {
    "NUL in the path": b"GET /mocks/rest/hostile/hostile/\0 HTTP/1.1\r\n",
    "bytes in the path": b"GET /mocks/rest/hostile/hostile/\xff\xfe HTTP/1.1\r\n",
    "long target": b"GET /mocks/rest/" + b"a" * 300_000 + b" HTTP/1.1\r\n",
    "absolute target": b"GET http://other.test/mocks/rest/hostile/hostile/same HTTP/1.1\r\n",
    "no version": b"GET /mocks/rest/hostile/hostile/same\r\n",
    "other protocol": b"\x16\x03\x01\x02\x00\x01\x00",
    "line break in the path": b"GET /mocks/rest/x\rX: y HTTP/1.1\r\n",
    "two lengths": b"POST /mocks/rest/hostile/hostile/echo/1 HTTP/1.1\r\nContent-Length: 1\r\n"
    b"Content-Length: 2\r\n",
    "length and chunks": b"POST /mocks/rest/hostile/hostile/echo/1 HTTP/1.1\r\n"
    b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n",
    "header flood": b"GET /mocks/rest/hostile/hostile/same HTTP/1.1\r\n"
    + b"".join(b"X-%d: y\r\n" % n for n in range(3_000)),
    "header without a colon": b"GET /mocks/rest/hostile/hostile/same HTTP/1.1\r\nnonsense\r\n",
    "websocket": b"GET /mocks/rest/hostile/hostile/same HTTP/1.1\r\nUpgrade: h2c\r\n"
    b"Connection: Upgrade\r\n",
}  # fmt: skip


async def test_hostile_bytes_are_answered_or_refused(plane: MockPlane):
    """By the server as it is in front of the plane; it goes on serving."""
    head = b"POST /mocks/rest/hostile/hostile/echo/1 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
    head += b"Transfer-Encoding: chunked\r\n\r\n"
    sent = {name: head + body for name, body in WIRE.items()}
    end = b"Host: x\r\nConnection: close\r\n\r\n"
    sent |= {name: line + end for name, line in LINES.items()}
    async with served(plane) as talk:
        for name, content_ in sent.items():
            answer = await talk(content_)
            assert not answer.startswith(b"HTTP/1.1 5"), (name, answer[:300])
            assert b"Traceback" not in answer, name
        usual = await talk(b"GET /mocks/rest/hostile/hostile/same HTTP/1.1\r\n" + end)
        assert usual.startswith(b"HTTP/1.1 200")
