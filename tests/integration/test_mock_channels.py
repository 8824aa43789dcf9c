"""Channels of async operations, by a WebSocket client and an SSE client on real servers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Origin

from tests.apps.mocks.test_channels import CONTRACT
from tests.integration.test_mock_serve import Served
from tests.support.browser import Server
from tests.support.files import write_files

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]
EXAMPLES = """\
examples:
  small: {response: {body: {id: 1, total: 10}}}
  large: {response: {body: {id: 2, total: 1000}}}
  pong: {when: [{from: body, param: kind, value: ping}], response: {body: {n: "{{request.body.n}}"}}}
"""  # noqa: E501
SUITE = {
    "suite.star": "",
    "api/orders.yaml": CONTRACT,
    "mock/orders/orderCreated.yaml": EXAMPLES,
}
SMALL, LARGE = {"id": 1, "total": 10}, {"id": 2, "total": 1000}
ORIGIN = "https://elsewhere.example"


@dataclass
class Place:
    url: str
    stop: Callable[[], None]

    @property
    def channel(self) -> str:
        return f"{self.url}/mocks/channels/live/orders/orderCreated"

    def socket(self, query: str = "") -> ClientConnection:
        return connect(self.channel.replace("http", "ws", 1) + query, origin=Origin(ORIGIN))


@contextmanager
def opened(kind: str, folder: Path) -> Iterator[Place]:
    suite = write_files(folder / "suites" / "live", SUITE)
    if kind == "mock serve":
        served = Served(folder, str(suite), "--port", "0", "-o", "json")
        try:
            yield Place(served.facts()["url"], served.process.terminate)
        finally:
            served.end()
        return
    server = Server(folder)
    server.environment["SUITES_DIR"] = str(suite.parent)
    server.start()
    assert server.process is not None
    try:
        yield Place(server.url, server.process.terminate)
    finally:
        server.kill()


KINDS = ("mock serve", "control plane")


@pytest.fixture(scope="module", params=KINDS)
def place(
    request: pytest.FixtureRequest,
    django_db_setup: None,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Place]:
    with opened(request.param, tmp_path_factory.mktemp("channels")) as made:
        yield made


def received(socket: ClientConnection, count: int) -> list[object]:
    return [json.loads(socket.recv(timeout=30)) for _ in range(count)]


def test_a_websocket_client_gets_the_examples_and_its_answers(place: Place):
    with place.socket() as socket:
        assert received(socket, 2) == [SMALL, LARGE]
        socket.send(json.dumps({"kind": "ping", "n": 7}))
        assert received(socket, 1) == [{"n": "7"}]
        socket.send(b'{"kind": "ping", "n": 8}')
        assert received(socket, 1) == [{"n": "8"}]
        response = socket.response
        assert response is not None
        assert response.headers["X-Partita-Mock-Adapter"] == "async"


def test_a_websocket_client_gets_them_again_at_an_interval(place: Place):
    with place.socket("?interval=50ms") as socket:
        assert received(socket, 5) == [SMALL, LARGE, SMALL, LARGE, SMALL]


def test_an_sse_client_gets_the_examples_and_the_end(place: Place):
    answer = httpx.get(place.channel, headers={"Origin": ORIGIN}, timeout=20)

    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/event-stream"
    assert answer.headers["access-control-allow-origin"] == "*"
    data = [
        json.loads("".join(line[6:] for line in frame.split("\n") if line.startswith("data: ")))
        for frame in answer.text.split("\n\n")
        if "data: " in frame
    ]
    assert data == [SMALL, LARGE, {"lastId": 2}]


def test_an_sse_client_gets_them_again_at_an_interval(place: Place):
    seen = 0
    with httpx.stream("GET", f"{place.channel}?interval=50ms", timeout=20) as answer:
        for line in answer.iter_lines():
            seen += line.startswith("id: ")
            if seen == 5:
                break
    assert seen == 5


def test_the_form_over_http_stays(place: Place):
    url = place.channel.replace("/channels/", "/async/")
    answer = httpx.post(url, json={"kind": "ping", "n": 9}, timeout=20)

    assert (answer.status_code, answer.json()) == (200, {"n": "9"})


def test_a_socket_of_nothing_is_closed_with_the_reason(place: Place):
    url = f"{place.url}/mocks/channels/live/orders/none".replace("http", "ws", 1)
    with connect(url) as socket, pytest.raises(ConnectionClosed):
        socket.recv(timeout=30)
    assert (socket.close_code, socket.close_reason) == (4404, "operation_not_found")


def test_hostile_clients_harm_only_themselves(place: Place):
    with place.socket() as socket:
        received(socket, 2)
        socket.send("[" * 900_000)  # nested beyond any parser: a text that matches nothing
        assert received(socket, 1) == [SMALL]
        socket.send("x" * (2**20 + 1))
        with pytest.raises(ConnectionClosed):
            socket.recv(timeout=30)
        assert socket.close_code == 1009
    answer = httpx.get(place.channel, params={"interval": "1ms"}, timeout=20)
    assert answer.json()["code"] == "invalid_parameter"
    test_a_websocket_client_gets_the_examples_and_its_answers(place)


@pytest.mark.parametrize("kind", KINDS)
def test_a_server_that_stops_says_so(kind: str, tmp_path: Path):
    with opened(kind, tmp_path) as place, place.socket("?interval=1h") as socket:
        received(socket, 2)
        place.stop()
        with pytest.raises(ConnectionClosed):
            socket.recv(timeout=30)
        assert socket.close_code == 1001
