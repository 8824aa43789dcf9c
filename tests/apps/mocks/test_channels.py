"""Channels of async operations, spoken to as ASGI speaks (reference: control-plane 18.8)."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mocks.engine.engine import Engine
from mocks.engine.nearest import nearest
from mocks.engine.tables import compile_space
from mocks.journal.memory import MemoryJournal
from mocks.model.calls import JournalEntry, MockAnswer
from mocks.model.ports import SpaceContent
from mocks.model.spaces import SpaceName
from mocks.plane.channel_wires import ChannelsApp, event_frame
from mocks.plane.channels import ChannelLimits, Channels
from mocks.plane.setup import PlaneSetup
from mocks.spaces import Spaces, SpacesSetup
from mocks.state.memory import MemoryState
from surfaces import surfaces_of

CONTRACT = """\
asyncapi: 2.6.0
info: {title: Orders, version: "1"}
channels:
  orders/created:
    subscribe: {operationId: orderCreated, message: {payload: {type: object}}}
"""
EXAMPLES = """\
examples:
  small: {response: {body: "small {{request.query.tenant || 'nobody'}}"}}
  large: {response: {body: "large"}}
  acme: {when: [{from: query, param: tenant, value: acme}], response: {body: "acme"}}
  pong:
    when: [{from: body, param: kind, value: ping}]
    response: {body: "pong {{request.body.n}}"}
  quiet: {when: [{from: body, param: kind, value: hush}], response: {body: ""}}
"""
FILES = {"api/orders.yaml": CONTRACT, "mock/orders/orderCreated.yaml": EXAMPLES}
PATH = "/mocks/channels/shop/orders/orderCreated"
SOON = 10.0


class Source:
    """The suite `shop`, and a run of it while `is_active`."""

    def __init__(self, files: Mapping[str, str]) -> None:
        self.is_active = True
        self.asked = 0
        self.use(files)

    def use(self, files: Mapping[str, str]) -> None:
        encoded = {path: text.encode() for path, text in files.items()}
        surfaces, _ = surfaces_of(encoded, suite_id="shop", base_url="")
        self.content = SpaceContent(
            suite_id="shop", title="Shop", repository="", surfaces=surfaces,
            generation=str(hash(tuple(encoded.items()))),
        )  # fmt: skip

    def load(self, name: SpaceName) -> SpaceContent | None:
        return self.content if name.suite_id == "shop" and self.is_active else None

    def generations(self, names: Sequence[SpaceName]) -> Mapping[SpaceName, str]:
        known = [name for name in names if self.load(name)]
        return dict.fromkeys(known, self.content.generation)


class Stage:
    """The channels of one process over a source."""

    def __init__(self, files: Mapping[str, str] | None = None, **limits: Any) -> None:
        self.source = Source(files or FILES)
        state = MemoryState()
        self.spaces = Spaces(
            SpacesSetup(source_of=lambda _kind: self.source, compile=compile_space, state=state)
        )
        self.journal = MemoryJournal()
        engine = Engine(state=state, scripts=None, proxy=None)  # type: ignore[arg-type]
        setup = PlaneSetup(
            spaces=self.spaces, engine=engine, journal=self.journal, nearest=nearest,
            secret=limits.pop("secret", ""), own_cookies=frozenset({"partita_session"}),
        )  # fmt: skip
        self.channels = Channels(setup, limits=ChannelLimits(**limits))
        self.app = ChannelsApp(self.channels)

    async def noted(self, count: int) -> None:
        """Wait until the journal has so many calls."""
        async with asyncio.timeout(SOON):
            while len(self.entries()) < count:  # noqa: ASYNC110 - the journal tells nobody
                await asyncio.sleep(0.005)

    def entries(self, space: str = "shop") -> list[JournalEntry]:
        return self.journal.newest(space)[::-1]


@pytest.fixture
async def stage():
    made = Stage()
    yield made
    made.spaces.stop()


class Call:
    """One connection to the application; what it sends is queued."""

    def __init__(
        self, stage: Stage, path: str = PATH, query: str = "", *, kind: str = "http",
        method: str = "GET", **headers: str,
    ) -> None:  # fmt: skip
        self.incoming: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.outgoing: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.blocked = asyncio.Event()  # set: the client takes nothing more
        scope: dict[str, Any] = {
            "type": kind,
            "path": path,
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "headers": [
                (name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()
            ],
        }
        if kind == "http":
            scope["method"] = method
        self.task = asyncio.create_task(stage.app(scope, self.incoming.get, self._send))

    async def _send(self, message: dict[str, Any]) -> None:
        if self.blocked.is_set():
            await asyncio.Event().wait()
        self.outgoing.put_nowait(message)

    async def next(self) -> dict[str, Any]:
        async with asyncio.timeout(SOON):
            return await self.outgoing.get()

    async def ended(self) -> None:
        async with asyncio.timeout(SOON):
            await self.task

    async def leave(self) -> None:
        self.incoming.put_nowait({"type": "http.disconnect"})
        await self.ended()


class Stream(Call):
    """A subscription over server-sent events."""

    async def whole(self) -> tuple[int, dict[str, str], str]:
        """Status, headers and body of an answer that ends."""
        start = await self.next()
        body = b""
        while (message := await self.next()).get("more_body"):
            body += message["body"]
        body += message["body"]
        await self.ended()
        headers = {name.decode(): value.decode() for name, value in start["headers"]}
        return start["status"], headers, body.decode()

    async def frames(self, count: int) -> list[str]:
        """The next frames, without the first of the stream."""
        found: list[str] = []
        while len(found) < count:
            message = await self.next()
            if message["type"] == "http.response.body":
                found += [each for each in message["body"].decode().split("\n\n") if each]
                found = [each for each in found if each != ": connected"]
        return found


class Socket(Call):
    """A subscription over a WebSocket."""

    def __init__(self, stage: Stage, path: str = PATH, query: str = "", **headers: str) -> None:
        super().__init__(stage, path, query, kind="websocket", **headers)
        self.incoming.put_nowait({"type": "websocket.connect"})

    async def accepted(self) -> dict[str, str]:
        message = await self.next()
        assert message["type"] == "websocket.accept", message
        return {name.decode(): value.decode() for name, value in message["headers"]}

    async def texts(self, count: int) -> list[str]:
        return [str((await self.next())["text"]) for _ in range(count)]

    async def leave(self) -> None:
        self.incoming.put_nowait({"type": "websocket.disconnect"})
        await self.ended()

    def say(self, text: str) -> None:
        self.incoming.put_nowait({"type": "websocket.receive", "text": text})

    async def closed(self) -> tuple[int, str]:
        message = await self.next()
        assert message["type"] == "websocket.close", message
        await self.ended()
        return message["code"], message["reason"]


def data(frame: str) -> str:
    return "\n".join(line[6:] for line in frame.split("\n") if line.startswith("data: "))


async def test_a_subscriber_gets_the_matching_examples_in_their_order(stage: Stage):
    status, headers, body = await Stream(stage).whole()

    assert status == 200
    assert headers["content-type"] == "text/event-stream"
    assert headers["x-partita-mock-adapter"] == "async"
    frames = body.split("\n\n")
    assert frames == [
        ": connected",
        ": example small\nid: 1\ndata: small nobody",
        ": example large\nid: 2\ndata: large",
        'event: end\ndata: {"lastId": 2}',
        "",
    ]


def test_no_example_of_a_channel_is_unreachable():
    files = {path: text.encode() for path, text in FILES.items()}
    assert surfaces_of(files, suite_id="shop", base_url="")[1] == ()


async def test_conditions_and_templates_see_the_subscription(stage: Stage):
    _, _, body = await Stream(stage, query="tenant=acme&interval=").whole()

    assert [data(each) for each in body.split("\n\n")[1:4]] == ["small acme", "large", "acme"]


@settings(max_examples=50)
@given(st.text(), st.text())
def test_no_body_and_no_name_break_out_of_their_event(body: str, example: str):
    answer = MockAnswer(body=body.encode(errors="replace"), example=example)
    frame = event_frame(7, answer).decode()

    assert frame.endswith("\n\n")
    lines = re.split("\r\n|\r|\n", frame[:-2])  # where a client of events ends a line
    comment, number, *told = lines
    assert comment.startswith(": example ")
    assert number == "id: 7"
    assert all(each.startswith("data: ") for each in told)
    sent = re.sub("\r\n|\r", "\n", body.encode(errors="replace").decode())
    assert "\n".join(each[6:] for each in told) == sent


async def test_a_name_is_as_good_as_an_id(stage: Stage):
    status, _, _ = await Stream(stage, "/mocks/channels/shop/orders/orders%2Fcreated").whole()
    assert status == 200


async def test_an_interval_repeats_the_examples(stage: Stage):
    stream = Stream(stage, query="interval=50ms")
    found = await stream.frames(5)

    assert [data(each) for each in found] == [
        "small nobody", "large", "small nobody", "large", "small nobody",
    ]  # fmt: skip
    await stream.leave()
    assert [each.method for each in stage.entries()] == ["SUBSCRIBE"]


@pytest.mark.parametrize("interval", ["49ms", "61m", "soon", "-1s", "1e9s", "0"])
async def test_an_interval_out_of_bounds_is_refused(stage: Stage, interval: str):
    status, _, body = await Stream(stage, query=f"interval={interval}").whole()

    assert status == 400
    assert json.loads(body)["code"] == "invalid_parameter"


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("/mocks/channels/none/orders/orderCreated", 404, "suite_not_found"),
        ("/mocks/channels/@@/orders/orderCreated", 404, "suite_not_found"),
        ("/mocks/channels/other@run-1/orders/orderCreated", 404, "space_not_active"),
        ("/mocks/channels/shop/none/orderCreated", 404, "surface_not_found"),
        ("/mocks/channels/shop/orders/none", 404, "operation_not_found"),
        ("/mocks/channels/shop/orders", 404, "not_found"),
        ("/mocks/channels/shop/orders/orderCreated/x", 404, "not_found"),
        ("/mocks/channels/", 404, "not_found"),
    ],
)
async def test_an_address_of_nothing_is_said_on_both_wires(
    stage: Stage, path: str, status: int, code: str
):
    answered, headers, body = await Stream(stage, path).whole()
    assert (answered, json.loads(body)["code"]) == (status, code)
    assert headers["content-type"] == "application/problem+json"
    assert headers["x-partita-mock-error"] == code

    socket = Socket(stage, path)
    await socket.accepted()
    assert await socket.closed() == (4000 + status, code)


async def test_other_methods_and_preflights(stage: Stage):
    status, headers, _ = await Stream(stage, method="POST").whole()
    assert (status, headers["allow"]) == (405, "GET, HEAD, OPTIONS")
    status, headers, _ = await Stream(stage, method="OPTIONS").whole()
    assert (status, headers["access-control-allow-origin"]) == (204, "*")
    status, headers, body = await Stream(stage, method="HEAD").whole()
    assert (status, headers["content-type"], body) == (200, "text/event-stream", "")


@pytest.mark.slow
async def test_an_event_source_that_comes_back_after_the_end_stays_away(stage: Stage):
    assert (await Stream(stage, last_event_id="2").whole())[0] == 204
    stream = Stream(stage, query="interval=1h", last_event_id="2")
    assert len(await stream.frames(2)) == 2
    await stream.leave()


async def test_a_socket_publishes_and_answers_its_client(stage: Stage):
    socket = Socket(stage)
    headers = await socket.accepted()
    assert headers["x-partita-mock-dispatcher"] == "example"
    assert await socket.texts(2) == ["small nobody", "large"]

    socket.say('{"kind": "ping", "n": 7}')
    assert await socket.texts(1) == ["pong 7"]
    socket.say('{"kind": "hush"}')  # answered by nothing
    socket.incoming.put_nowait({"type": "websocket.receive", "bytes": b'{"kind": "ping", "n": 8}'})
    assert await socket.texts(1) == ["pong 8"]
    await socket.leave()

    seen = [(each.method, each.matched_example, each.request_body) for each in stage.entries()]
    assert seen == [
        ("SUBSCRIBE", "small", ""),
        ("MESSAGE", "pong", '{"kind": "ping", "n": 7}'),
        ("MESSAGE", "quiet", '{"kind": "hush"}'),
        ("MESSAGE", "pong", '{"kind": "ping", "n": 8}'),
    ]


async def test_a_message_that_nothing_answers_gets_the_problem_and_the_nearest_is_kept():
    files = FILES | {
        "mock/orders/orderCreated.yaml": """\
examples:
  pong: {when: [{from: body, param: kind, value: ping}], response: {body: pong}}
"""
    }
    stage = Stage(files)
    socket = Socket(stage)
    await socket.accepted()
    socket.say('{"kind": "pong"}')

    [text] = await socket.texts(1)
    assert json.loads(text)["code"] == "mock_no_match"
    [entry] = stage.entries()  # to subscribe where nothing is published is no unmatched call
    assert (entry.method, str(entry.outcome)) == ("MESSAGE", "no_match")
    assert entry.nearest is not None
    assert entry.nearest["example"] == "pong"
    await socket.leave()

    status, _, body = await Stream(stage).whole()  # nothing is published on its own
    assert (status, json.loads(body)["code"]) == (404, "mock_no_match")
    stage.spaces.stop()


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ("{dispatcher: sequence, dispatcherRules: 'b, a, b'}", ["b", "a", "b", "b", "a"]),
        ("{dispatcher: sequence, dispatcherRules: 'once: b, a'}", ["b", "a", "a", "a", "a"]),
        ("{dispatcher: sequence}", ["a", "b", "a", "b", "a"]),
    ],
)
async def test_the_rules_of_a_dispatcher_decide_what_is_published(rules: str, expected: list[str]):
    files = FILES | {
        "mock/orders/orderCreated.yaml": "examples:\n  a: {response: {body: a}}\n"
        "  b: {response: {body: b}}\n",
        "mock/orders/orderCreated.metadata.yaml": f"spec: {rules}\n",
    }
    stage = Stage(files)
    stream = Stream(stage, query="interval=50ms")
    assert [data(each) for each in await stream.frames(5)] == expected
    await stream.leave()
    stage.spaces.stop()


async def test_a_constraint_that_fails_is_said_before_the_first_byte():
    metadata = "spec:\n  parameterConstraints: [{name: tenant, source: query, required: true}]\n"
    stage = Stage(FILES | {"mock/orders/orderCreated.metadata.yaml": metadata})
    status, _, body = await Stream(stage).whole()
    problem = json.loads(body)
    assert (status, problem["code"]) == (400, "mock_constraint_failed")
    assert problem["errors"]

    socket = Socket(stage)
    await socket.accepted()
    assert await socket.closed() == (4400, "mock_constraint_failed")
    assert (await Stream(stage, query="tenant=a").whole())[0] == 200
    stage.spaces.stop()


async def test_a_delay_holds_up_nobody_else():
    metadata = "spec: {delayMillis: 60000}\n"
    stage = Stage(FILES | {"mock/orders/orderCreated.metadata.yaml": metadata})
    slow = Socket(stage)
    await slow.accepted()
    slow.say('{"kind": "ping"}')
    slow.say('{"kind": "hush"}')
    await stage.noted(3)  # both messages are resolved while they wait
    assert slow.outgoing.empty()
    await slow.leave()
    stage.spaces.stop()


@pytest.mark.slow
async def test_credentials_of_the_site_are_neither_needed_nor_kept(stage: Stage):
    stream = Stream(
        stage, query="interval=1h", cookie="partita_session=planted; theme=dark",
        authorization="Bearer planted", x_partita_mock_secret="planted",
    )  # fmt: skip
    await stream.frames(2)
    await stream.leave()

    [entry] = stage.entries()
    assert "planted" not in repr(entry)
    assert "cookie" in entry.request_headers


async def test_a_shared_space_asks_for_the_shared_secret():
    stage = Stage(secret="s3cret")
    assert (await Stream(stage).whole())[0] == 401
    assert (await Stream(stage, x_partita_mock_secret="s3cret").whole())[0] == 200
    run = await Stream(stage, "/mocks/channels/shop@run-1/orders/orderCreated").whole()
    assert run[0] == 200
    stage.spaces.stop()


@pytest.mark.slow
async def test_connections_are_bounded_by_space_and_in_all():
    stage = Stage(connections_of_space=2, connections=3)
    run = "/mocks/channels/shop@run-{}/orders/orderCreated"
    held = [Stream(stage, query="interval=1h") for _ in range(2)]
    for each in held:
        await each.frames(2)
    status, headers, body = await Stream(stage, query="interval=1h").whole()
    assert (status, json.loads(body)["code"]) == (429, "too_many_streams")
    assert headers["retry-after"]

    socket = Socket(stage, run.format(1))
    await socket.accepted()
    await socket.texts(2)
    refused = Socket(stage, run.format(2))
    await refused.accepted()
    assert await refused.closed() == (4429, "too_many_streams")

    for each in held:
        await each.leave()
    again = Stream(stage)
    assert (await again.whole())[0] == 200
    await socket.leave()
    stage.spaces.stop()


async def test_a_message_beyond_its_bound_closes_the_socket():
    stage = Stage(message_bytes=100)
    socket = Socket(stage)
    await socket.accepted()
    await socket.texts(2)
    socket.say("x" * 101)

    assert (await socket.closed())[0] == 1009
    assert [each.method for each in stage.entries()] == ["SUBSCRIBE"]
    stage.spaces.stop()


@pytest.mark.slow
async def test_an_idle_socket_is_closed():
    stage = Stage(idle_s=0.05)
    socket = Socket(stage)
    await socket.accepted()
    await socket.texts(2)

    assert await socket.closed() == (1000, "idle")
    stage.spaces.stop()


@pytest.mark.parametrize("kind", [Stream, Socket])
async def test_a_client_that_takes_nothing_is_left(kind: type[Call]):
    stage = Stage(send_s=0.05, connections_of_space=1)
    call = kind(stage, query="interval=50ms")
    await call.next()
    call.blocked.set()

    await call.ended()
    assert (await Stream(stage).whole())[0] == 200  # its place is free again
    stage.spaces.stop()


async def test_subscriptions_end_with_the_process(stage: Stage):
    stream, socket = Stream(stage, query="interval=1h"), Socket(stage)
    await stream.frames(2)
    await socket.accepted()
    await socket.texts(2)
    stage.channels.close()

    assert (await socket.closed())[0] == 1001
    assert await stream.next() == {"type": "http.response.body", "body": b""}
    await stream.ended()
    status, _, body = await Stream(stage).whole()
    assert (status, json.loads(body)["code"]) == (503, "shutting_down")


@pytest.mark.slow
async def test_subscriptions_end_with_the_run(stage: Stage):
    path = "/mocks/channels/shop@run-1/orders/orderCreated"
    stream, socket = Stream(stage, path, "interval=1h"), Socket(stage, path)
    await stream.frames(2)
    await socket.accepted()
    await socket.texts(2)
    stage.source.is_active = False
    stage.spaces.refresh()

    assert await socket.closed() == (4404, "space_not_active")
    assert (await stream.next())["body"] == b""
    await stream.ended()


async def test_a_subscription_follows_the_edits_of_its_suite(stage: Stage):
    stream = Stream(stage, query="interval=50ms")
    await stream.frames(2)
    edited = {**FILES, "mock/orders/orderCreated.yaml": EXAMPLES.replace("large", "huge")}
    stage.source.use(edited)
    stage.spaces.refresh()

    async with asyncio.timeout(SOON):
        while data((await stream.frames(1))[0]) != "huge":
            pass
    await stream.leave()


async def test_an_edit_that_removes_the_operation_ends_its_subscriptions(stage: Stage):
    stream, socket = Stream(stage, query="interval=50ms"), Socket(stage, query="interval=50ms")
    await stream.frames(2)
    await socket.accepted()
    stage.source.use({"api/orders.yaml": CONTRACT.replace("orderCreated", "orderMade")})
    stage.spaces.refresh()

    frame = ""
    async with asyncio.timeout(SOON):
        while not frame.startswith("event: error"):
            frame = (await stream.frames(1))[0]
        while (message := await socket.next())["type"] == "websocket.send":
            pass
    assert json.loads(data(frame))["code"] == "operation_not_found"
    assert (message["code"], message["reason"]) == (4404, "operation_not_found")
    await stream.ended()
    await socket.ended()


async def test_an_error_of_ours_is_logged_and_said_without_its_words(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    async def fails(*_arguments: object) -> object:
        raise RuntimeError("unforeseen words")

    monkeypatch.setattr(Engine, "look_up_state", fails)
    status, _, body = await Stream(stage).whole()
    assert (status, json.loads(body)["code"]) == (500, "internal_error")
    assert "unforeseen" not in body
    socket = Socket(stage)
    await socket.accepted()
    assert await socket.closed() == (1011, "")
    assert caplog.text.count("RuntimeError: unforeseen words") == 2


@pytest.mark.parametrize("text", ["", "\0", "{", "[" * 5000, '{"kind": {"kind": 1}}', "\ud7ff" * 9])
async def test_any_message_is_answered(stage: Stage, text: str):
    socket = Socket(stage)
    await socket.accepted()
    await socket.texts(2)
    socket.say(text)
    assert await socket.texts(1) == ["small nobody"]
    await socket.leave()
