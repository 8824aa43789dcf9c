"""An API server on loopback whose pods are processes of this host, with faults by seed.

Watches, logs and programs in containers are real streams of HTTP and WebSocket.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
from collections.abc import AsyncGenerator, Awaitable, Callable, MutableMapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs

import httpx
import uvicorn

from tests.support.cluster_api import ClusterApi, Object, refusal
from tests.support.local_pods import LocalPod, now_text, secret_values

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
_LONG_LOGS: Final = 0.3
_CHUNK: Final = 32 * 1024
_STDOUT, _STDERR, _RESULT = 1, 2, 3
_PROTOCOL: Final = "v5.channel.k8s.io"
_PREFIX: Final = "/api/v1/namespaces/apps/"


class ConnectionCut(Exception):
    """The server ends this connection in the middle."""


@dataclass
class Faults:
    """What goes wrong: a share of the requests, and the most that a stream may carry."""

    seed: int
    share: float = 0.1
    watch_events: int = 4  # at most, of one watch
    log_bytes: int = 400  # at most, of most streams of a log
    long_log_bytes: int = 30_000  # of the others: what is asked for again must fit at last
    counts: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)

    def _count(self, what: str) -> None:
        self.counts[what] = self.counts.get(what, 0) + 1

    def happens(self, what: str) -> bool:
        if self._random.random() >= self.share:
            return False
        self._count(what)
        return True

    def refusal(self) -> httpx.Response | None:
        """Return an error of a busy or broken server, or None."""
        if not self.happens("refused"):
            return None
        status = self._random.choice((429, 500, 503))
        return refusal(status, "Busy", f"the server says {status}")

    def events(self) -> int:
        return self._random.randint(0, self.watch_events)

    def cut_after(self) -> int:
        is_long = self._random.random() < _LONG_LOGS and "log cut" in self.counts
        return self._random.randint(1, self.long_log_bytes if is_long else self.log_bytes)


class LocalCluster(ClusterApi):
    """The scripted API server with a kubelet; `serve` runs it."""

    def __init__(self, folder: Path, faults: Faults | None = None) -> None:
        super().__init__()
        self.faults = faults
        self.pods: dict[str, LocalPod] = {}
        self.image_variables: dict[str, str] = {}
        self._folder = folder
        self._history: list[tuple[int, str, Object]] = []
        self._news = asyncio.Event()
        self._deletions: set[asyncio.Task[None]] = set()
        self._denial, self._free = "", 0

    @asynccontextmanager
    async def serve(self, port: int) -> AsyncGenerator[None]:
        config = uvicorn.Config(
            self._application, host="127.0.0.1", port=port, log_level="critical", lifespan="off",
            interface="asgi3", ws_per_message_deflate=False, timeout_graceful_shutdown=1,
        )  # fmt: skip
        server = uvicorn.Server(config)
        serving = asyncio.create_task(server._serve())
        while not server.started:  # noqa: ASYNC110 - it has no event
            await asyncio.sleep(0.01)
        try:
            yield
        finally:
            await asyncio.gather(*(pod.delete() for pod in self.pods.values()), *self._deletions)
            server.should_exit = server.force_exit = True
            await serving

    async def _application(self, scope: Message, receive: Receive, send: Send) -> None:
        with contextlib.suppress(asyncio.CancelledError):
            if scope["type"] == "websocket" and scope["path"].endswith("/attach"):
                await self._attach(scope, receive, send)
            elif scope["type"] == "websocket":
                await self._exec(scope, receive, send)
            else:
                await self._answer(scope, receive, send)

    async def _answer(self, scope: Message, receive: Receive, send: Send) -> None:
        content, more = b"", True
        while more:
            message = await receive()
            content, more = content + message.get("body", b""), message.get("more_body", False)
        url = f"http://cluster{scope['path']}?{scope['query_string'].decode()}"
        request = httpx.Request(
            scope["method"], url, headers=list(scope["headers"]), content=content
        )
        refused = self.faults.refusal() if self.faults else None
        if refused is None and request.url.params.get("watch"):
            await self._stream(send, self._watch(request.url.params["resourceVersion"]))
            return
        if refused is None and scope["path"].endswith("/log"):
            await self._send_log(request, send)
            return
        response = refused or await self.respond(request)
        if self.faults and self.faults.happens("answer lost"):
            raise ConnectionCut
        await _start(send, response.status_code, len(response.content))
        await send({"type": "http.response.body", "body": response.content})

    # Objects

    def deny_pods(self, words: str, *, while_there_are: int = 0) -> None:
        """Refuse to create pods in these words, as long as there are so many; "": no more."""
        self._denial, self._free = words, while_there_are

    def _create(self, kind: str, body: Object) -> httpx.Response:
        if kind == "pods" and self._denial and len(self.pods) >= self._free:
            return refusal(403, "Forbidden", self._denial)
        body["metadata"]["creationTimestamp"] = now_text()
        self.status = {"phase": "Pending"}
        answer = super()._create(kind, body)
        if kind == "pods" and answer.status_code == 201:
            name = body["metadata"]["name"]
            self._note("ADDED", self.objects["pods"][name])
            self.pods[name] = LocalPod(
                body,
                self._folder,
                self._secret,
                lambda status: self._update(name, status),
                image_variables=self.image_variables,
            )
        return answer

    def _secret(self, name: str) -> dict[str, bytes]:
        return secret_values(self.objects["secrets"][name])

    def _update(self, name: str, status: Object) -> None:
        if found := self.objects.get("pods", {}).get(name):
            self._number += 1
            about = {**found["metadata"], "resourceVersion": str(self._number)}
            self.objects["pods"][name] = {**found, "metadata": about, "status": status}
            self._note("MODIFIED", self.objects["pods"][name])

    def _note(self, kind: str, pod: Object) -> None:
        self._history.append((self._number, kind, pod))
        self._news.set()
        self._news = asyncio.Event()

    def _named(self, request: httpx.Request, kind: str, name: str) -> httpx.Response:
        found = self.objects.get(kind, {}).get(name)
        if request.method == "PATCH" and found:
            self._merge(kind, name, found, json.loads(request.content)["metadata"])
        answer = super()._named(request, kind, name)
        if request.method == "DELETE" and answer.is_success and kind == "pods" and found:
            self._number += 1
            about = {**found["metadata"], "resourceVersion": str(self._number)}
            self._note("DELETED", {**found, "metadata": about})
            deletion = asyncio.create_task(self.pods.pop(name).delete())
            self._deletions.add(deletion)
            deletion.add_done_callback(self._deletions.discard)
            self._collect_owned(found["metadata"]["uid"])
        return answer

    def _merge(self, kind: str, name: str, found: Object, changes: Object) -> None:
        self._number += 1
        about = {**found["metadata"], **changes, "resourceVersion": str(self._number)}
        if notes := changes.get("annotations"):
            about["annotations"] = found["metadata"].get("annotations", {}) | notes
        self.objects[kind][name] = {**found, "metadata": about}
        if kind == "pods":
            self._note("MODIFIED", self.objects[kind][name])

    def _collect_owned(self, uid: str) -> None:
        secrets = self.objects.get("secrets", {})
        for name, each in list(secrets.items()):
            if any(owner["uid"] == uid for owner in each["metadata"].get("ownerReferences", ())):
                del secrets[name]

    # Streams

    async def _watch(self, version: str) -> AsyncGenerator[bytes]:
        known, left = int(version), self.faults.events() if self.faults else 10**9
        if self.faults and self.faults.happens("410 Gone"):
            status = {"kind": "Status", "code": 410, "message": "too old resource version"}
            yield _line({"type": "ERROR", "object": status})
            return
        while left > 0:
            news = self._news
            for number, kind, pod in [each for each in self._history if each[0] > known][:left]:
                known, left = number, left - 1
                yield _line({"type": kind, "object": pod})
            if left > 0:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(news.wait(), 0.5)
                about = {"metadata": {"resourceVersion": str(known)}}
                yield _line({"type": "BOOKMARK", "object": about})

    async def _send_log(self, request: httpx.Request, send: Send) -> None:
        name = request.url.path.removeprefix(f"{_PREFIX}pods/").removesuffix("/log")
        query = request.url.params
        if (pod := self.pods.get(name)) is None:
            answer = refusal(404, "NotFound", f'pods "{name}" not found')
            await _start(send, answer.status_code, len(answer.content))
            await send({"type": "http.response.body", "body": answer.content})
            return
        lines = pod.log.read(since=query.get("sinceTime", ""), follow=query["follow"] == "true")
        await self._stream(send, self._cut(lines) if self.faults else lines)

    async def _cut(self, lines: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
        """Yield the stream up to a byte in the middle of it."""
        assert self.faults
        left = self.faults.cut_after()
        async for line in lines:
            if len(line) > left:
                yield line[:left]
                self.faults._count("log cut")
                raise ConnectionCut
            left -= len(line)
            yield line

    async def _stream(self, send: Send, parts: AsyncGenerator[bytes]) -> None:
        await _start(send, 200)
        async with contextlib.aclosing(parts):
            async for part in parts:
                await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    # Programs in containers

    async def _exec(self, scope: Message, receive: Receive, send: Send) -> None:
        await receive()  # websocket.connect
        query = parse_qs(scope["query_string"].decode())
        container = query["container"][0]
        name = scope["path"].removeprefix(f"{_PREFIX}pods/").removesuffix("/exec")
        pod = self.pods.get(name)
        if pod is None or not pod.has_running(container):
            await _refuse(
                send, 404 if pod is None else 500, f"container {container} is not running"
            )
            return
        if self.faults and self.faults.happens("exec refused"):
            await _refuse(send, 500, "the kubelet does not answer")
            return
        await send({"type": "websocket.accept", "subprotocol": _PROTOCOL})
        try:
            process = await pod.start_program(container, query["command"])
        except OSError as error:
            words = f'exec: "{query["command"][0]}": {error.strerror}'.lower()
            await _send(send, _RESULT, json.dumps({"status": "Failure", "message": words}).encode())
            return
        await self._carry(pod, process, receive, send)

    async def _attach(self, scope: Message, receive: Receive, send: Send) -> None:
        """Carry what a client writes to the stdin of a step, which closes with the client."""
        await receive()  # websocket.connect
        pod = self.pods.get(scope["path"].removeprefix(f"{_PREFIX}pods/").removesuffix("/attach"))
        stdin = pod.take_stdin() if pod else None
        if pod is None or stdin is None:
            await _refuse(send, 404 if pod is None else 400, "the container cannot be attached to")
            return
        await send({"type": "websocket.accept", "subprotocol": _PROTOCOL})
        typing = asyncio.create_task(_type(stdin, receive))
        ending = asyncio.create_task(pod.step_ended.wait())
        try:
            await asyncio.wait({typing, ending}, return_when=asyncio.FIRST_COMPLETED)
            if ending.done():
                await send({"type": "websocket.close", "code": 1000})
        finally:
            stdin.close()
            for task in (typing, ending):
                task.cancel()
            await asyncio.gather(typing, ending, return_exceptions=True)

    async def _carry(
        self, pod: LocalPod, process: asyncio.subprocess.Process, receive: Receive, send: Send
    ) -> None:
        typing = asyncio.create_task(_type(process.stdin, receive))
        pumps = asyncio.gather(
            _pump(process.stdout, _STDOUT, send), _pump(process.stderr, _STDERR, send)
        )
        ending = asyncio.create_task(pod.end_program(process))
        try:
            await asyncio.wait({typing, ending}, return_when=asyncio.FIRST_COMPLETED)
            if not ending.done():  # the client went away
                return
            await pumps
            if self.faults and self.faults.happens("exec cut"):
                raise ConnectionCut
            await _send(send, _RESULT, _result(ending.result()))
            await send({"type": "websocket.close", "code": 1000})
        finally:
            for task in (typing, ending, pumps):
                task.cancel()
            await asyncio.gather(typing, ending, pumps, return_exceptions=True)


async def _start(send: Send, status: int, length: int | None = None) -> None:
    headers = [(b"content-type", b"application/json")]
    if length is not None:
        headers.append((b"content-length", str(length).encode()))
    await send({"type": "http.response.start", "status": status, "headers": headers})


async def _refuse(send: Send, status: int, words: str) -> None:
    await send({"type": "websocket.http.response.start", "status": status, "headers": []})
    await send({"type": "websocket.http.response.body", "body": words.encode()})


async def _send(send: Send, channel: int, data: bytes) -> None:
    await send({"type": "websocket.send", "bytes": bytes([channel]) + data})


async def _pump(stream: asyncio.StreamReader | None, channel: int, send: Send) -> None:
    while stream and (data := await stream.read(_CHUNK)):
        await _send(send, channel, data)


async def _type(stdin: asyncio.StreamWriter | None, receive: Receive) -> None:
    """Pass on the input until the client goes away."""
    while (message := await receive())["type"] == "websocket.receive":
        if stdin:
            with contextlib.suppress(ConnectionError):
                stdin.write(message["bytes"][1:])
                await stdin.drain()


def _result(code: int) -> bytes:
    if code == 0:
        return b'{"status": "Success"}'
    causes = [{"reason": "ExitCode", "message": str(code)}]
    body = {"status": "Failure", "reason": "NonZeroExitCode", "details": {"causes": causes}}
    return json.dumps(body).encode()


def _line(event: Object) -> bytes:
    return json.dumps(event).encode() + b"\n"
