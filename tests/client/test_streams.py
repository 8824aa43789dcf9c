"""A stream goes on where it was cut, and no line is lost or comes twice."""

from __future__ import annotations

import io
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest

from partita_client import ApiProblem, Client, NoConnection, NotPartita, WaitTimeout
from partita_client.errors import UnknownHost
from partita_client.event_stream import ResumingStream, read_frames
from partita_client.transport import HttpTransport
from tests.support.fake_partita import RUN, TOKEN, FakePartita, Relay, problem
from tests.support.processes import ROOT


def port_of(fake: FakePartita) -> int:
    return urlsplit(fake.url).port or 0


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("partita_client.event_stream.pause_s", lambda _failures: 0.01)


def ids_of(client: Client) -> list[int]:
    return [record["id"] for record in client.log(RUN)]


@pytest.mark.parametrize("cuts", [0, 1, 20])
def test_a_log_that_is_cut_is_read_whole_and_once(fake: FakePartita, cuts: int):
    fake.lines = 5000
    relay = Relay(port_of(fake), cuts=cuts, after_bytes=40_001)

    with Client(f"http://127.0.0.1:{relay.port}", token=TOKEN) as client:
        found = ids_of(client)

    relay.close()
    assert found == list(range(1, 5001))
    assert relay.accepted == cuts + 1


@pytest.mark.slow
def test_a_hundred_thousand_lines_through_twenty_cuts(fake: FakePartita):
    fake.lines = 100_000
    relay = Relay(port_of(fake), cuts=20, after_bytes=700_003)

    with Client(f"http://127.0.0.1:{relay.port}", token=TOKEN) as client:
        found = ids_of(client)

    relay.close()
    assert found == list(range(1, 100_001))


def test_a_server_that_sends_lines_again_is_read_once(fake: FakePartita, monkeypatch):
    fake.lines = 400
    relay = Relay(port_of(fake), cuts=3, after_bytes=9_000)
    send = HttpTransport.stream

    def forget(self, path, *, query, headers, idle_s):
        return send(self, path, query={**query, "since": 0}, headers=headers, idle_s=idle_s)

    monkeypatch.setattr(HttpTransport, "stream", forget)
    with Client(f"http://127.0.0.1:{relay.port}", token=TOKEN) as client:
        found = ids_of(client)

    relay.close()
    assert found == list(range(1, 401))


def test_it_begins_after_a_record(fake: FakePartita):
    fake.lines = 10
    with Client(fake.url, token=TOKEN) as client:
        assert [record["id"] for record in client.log(RUN, after=7)] == [8, 9, 10]


def test_a_refusal_is_not_repeated(fake: FakePartita):
    with Client(fake.url, token="pat_other") as client, pytest.raises(ApiProblem) as refused:
        ids_of(client)

    assert refused.value.code == "token_revoked"
    assert len(fake.asked) == 1


def test_the_time_to_wait_ends(fake: FakePartita):
    fake.is_over = False
    with Client(fake.url, token=TOKEN) as client, pytest.raises(WaitTimeout):
        client.wait(RUN, timeout_s=0.3)


class Clock:
    """In place of the module `time`: it goes on where somebody waits."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr("partita_client.event_stream.time", found)
    return found


@pytest.mark.usefixtures("clock")
def test_a_server_that_stays_away_is_given_up_and_named():
    told: list[str] = []
    stream = ResumingStream(
        transport=HttpTransport("http://127.0.0.1:1"), path="/x", away_s=0.1, on_away=told.append
    )

    with pytest.raises(NoConnection, match=r"no connection to http://127\.0\.0\.1:1"):
        list(stream.frames())
    assert len(told) == 1


def test_a_host_that_nobody_knows_is_given_up_soon(monkeypatch: pytest.MonkeyPatch):
    def look_up(*_: Any, **__: Any) -> Any:
        raise socket.gaierror(socket.EAI_NONAME, "why")

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    monkeypatch.setattr("partita_client.patience.UNKNOWN_HOST_S", 0.05)
    monkeypatch.setattr("partita_client.event_stream.pause_s", lambda _failures: 0.01)

    with Client("https://partita.exmaple") as client, pytest.raises(UnknownHost, match="exmaple"):
        client.wait(RUN, timeout_s=60)


@pytest.mark.parametrize("name", ["shop", "shop-broken"])
@pytest.mark.parametrize("kind", ["logs", "events"])
def test_the_streams_of_a_real_run_are_read_whole(name: str, kind: str):
    text = (ROOT / "docs" / "transcripts" / f"{name}.{kind}.sse").read_bytes()
    stream: Any = io.BytesIO(text)

    frames = [frame for frame in read_frames(stream) if frame.data is not None]

    *records, end = frames
    assert [frame.data["id"] for frame in records] == list(range(1, len(records) + 1))
    assert (end.kind, end.data["lastId"]) == ("end", len(records))


class Scripted:
    """In place of a connection: one text a connection, each of which then ends."""

    has_answered = False

    def __init__(self, *texts: bytes) -> None:
        self.texts = list(texts)

    @contextmanager
    def stream(self, _path: str, **_: object) -> Iterator[io.BytesIO]:
        yield io.BytesIO(self.texts.pop(0))


def scripted(*texts: bytes, away_s: float) -> list[str]:
    transport: Any = Scripted(*texts)
    stream = ResumingStream(transport=transport, path="/x", away_s=away_s)
    return [frame.kind for frame in stream.frames()]


@pytest.mark.usefixtures("clock")
def test_a_quiet_stream_that_is_cut_now_and_then_is_not_given_up(monkeypatch):
    monkeypatch.setattr("partita_client.event_stream.pause_s", lambda _failures: 0.05)
    quiet = b": connected\n\n: ping\n\n"
    end = b'event: end\ndata: {"status":"Healthy"}\n\n'

    assert scripted(*[quiet] * 10, end, away_s=0.2) == ["end"]


@pytest.mark.usefixtures("clock")
def test_a_server_that_hangs_up_at_once_is_given_up(monkeypatch):
    monkeypatch.setattr("partita_client.event_stream.pause_s", lambda _failures: 0.05)

    with pytest.raises(NoConnection, match="ended the stream"):
        scripted(*[b": connected\n\n"] * 50, away_s=0.2)


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize("comment", ["end", "gap", "", "connected"])
def test_a_comment_is_no_event(comment: str):
    text = f': {comment}\n\ndata: {{"id": 1}}\n\n'.encode()
    end = b'event: end\ndata: {"status":"Healthy"}\n\n'

    assert scripted(text + end, away_s=1) == ["", "end"]


def test_a_record_of_many_lines_is_bounded():
    stream: Any = io.BytesIO(b"event: x\n" + (b"data: " + b"x" * 2**20 + b"\n") * 5)

    with pytest.raises(NotPartita, match="a record of the stream is larger than 4 MiB"):
        list(read_frames(stream))


def test_waiting_returns_the_run_as_it_ended(fake: FakePartita):
    with Client(fake.url, token=TOKEN) as client:
        assert client.wait(RUN)["status"] == "Failed"


def test_a_run_that_is_not_there_is_said_so(fake: FakePartita):
    fake.answers[f"GET /api/v1/executions/{RUN}"] = lambda *_: problem(404, "execution_not_found")
    with Client(fake.url, token=TOKEN) as client, pytest.raises(ApiProblem) as refused:
        client.run(RUN)

    assert refused.value.exit_code == 3
    assert "run list" in refused.value.advice
