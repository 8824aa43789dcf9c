"""Requests to the API server: objects, watches, logs, and programs in containers.

    ClusterError
    ├── Gone            there is no such object, or the version of a watch is too old
    ├── Exists          an object of this name exists
    ├── RequestDenied         the API server refused; the message is its own
    └── StreamBroken    a watch, a log or an exec ended in the middle
        └── StreamSilent    nothing came through it for as long as it may be silent

What has no answer for `unavailable_after_s` raises RuntimeUnavailable.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

import httpx
import msgspec
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidStatus, WebSocketException

from kernel.cluster_access import ClusterAccess
from kernel.exec_plugin import AccessRefused
from worker.domain.runtime import UNAVAILABLE_AFTER_S, RuntimeUnavailable
from worker.runtimes.kubernetes.exec_stream import ExecResult, ExecStream
from worker.runtimes.kubernetes.objects import AnyList, ObjectList, Status

T = TypeVar("T")
Page = TypeVar("Page", bound=ObjectList)
Body = Mapping[str, object]
CALL_S: Final = 15.0
EXEC_S: Final = 15.0  # a program that only looks or signals
_CLOSE_S: Final = 2.0
_PONG_S: Final = 90.0  # a busy API server answers late; what it closes or breaks is known at once
PAGE: Final = 500
_JSON: Final = "application/json"
_ONLY_METADATA: Final = f"{_JSON};as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
_PAUSES_S: Final = (0.1, 0.2, 0.5, 1.0)
_BUSY: Final = frozenset({429, 500, 502, 503, 504})
_PROTOCOLS: Final = ("v5.channel.k8s.io", "v4.channel.k8s.io")


class ClusterError(Exception):
    """A request failed."""


class Gone(ClusterError):
    """There is no such object, or the version of a watch is too old."""


class Exists(ClusterError):
    """An object of this name exists, or it is another one than that to delete."""


class RequestDenied(ClusterError):
    """The API server refused; `status` is that of the answer."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class StreamBroken(ClusterError):
    """A watch, a log or an exec ended in the middle."""


class StreamSilent(StreamBroken):
    """Nothing came through a watch or a log for as long as it may be silent."""


class _NoAnswer(Exception):
    """The API server cannot be reached or is busy, or another change came first."""


class _CredentialRefused(_NoAnswer):
    """The API server let us not in; a token that is renewed may be let in later."""


class ClusterClient:
    """One namespace of a cluster."""

    def __init__(
        self,
        access: ClusterAccess,
        namespace: str,
        *,
        unavailable_after_s: float = UNAVAILABLE_AFTER_S,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self.namespace = namespace
        self._access = access
        self._unavailable_after_s = unavailable_after_s
        self._client = httpx.AsyncClient(
            base_url=access.server,
            verify=access.trust,
            transport=transport,
            timeout=httpx.Timeout(CALL_S),
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=20),
            trust_env=False,
            follow_redirects=False,
        )

    async def close(self) -> None:
        await self._client.aclose()

    @property
    def server(self) -> httpx.URL:
        return self._client.base_url

    def path(self, kind: str, name: str = "", part: str = "") -> str:
        """Return the path of a kind (`pods`), of an object, or of a part of it (`log`)."""
        parts = filter(None, (kind, name, part))
        return "/".join(("/api/v1/namespaces", self.namespace, *parts))

    async def get(self, kind: str, name: str, form: type[T]) -> T:
        """Raises Gone."""
        return await self._ask("GET", self.path(kind, name), form)

    async def create(self, kind: str, body: Body, form: type[T]) -> T:
        """Raises Exists, RequestDenied."""
        return await self._ask("POST", self.path(kind), form, body=body)

    async def patch(self, kind: str, name: str, body: Body, *, part: str = "") -> None:
        """Merge into an object. Raises Gone, RequestDenied."""
        await self._ask("PATCH", self.path(kind, name, part), object, body=body)

    async def delete(self, kind: str, name: str, *, uid: str = "") -> None:
        """Delete at once, whatever runs; with `uid`, only that object. Raises Gone, Exists."""
        body: dict[str, object] = {"gracePeriodSeconds": 0, "propagationPolicy": "Background"}
        if uid:
            body["preconditions"] = {"uid": uid}
        await self._ask("DELETE", self.path(kind, name), object, body=body)

    async def list_page(
        self,
        kind: str,
        form: type[T],
        query: Mapping[str, str],
        *,
        deadline_s: float | None = None,
    ) -> T:
        """Return one page; `query`: labelSelector, fieldSelector, limit, continue."""
        return await self._ask(
            "GET", self.path(kind), form, query=query, unavailable_after_s=deadline_s
        )

    async def pages(self, kind: str, form: type[Page], selector: str) -> AsyncGenerator[Page]:
        """Yield all objects with these labels, page by page."""
        query = {"labelSelector": selector, "limit": str(PAGE)}
        while True:
            page = await self.list_page(kind, form, query)
            yield page
            if not page.metadata.continue_:
                return
            query["continue"] = page.metadata.continue_

    async def request(
        self,
        method: str,
        path: str,
        form: type[T],
        *,
        body: Body | None = None,
        query: Mapping[str, str] | None = None,
    ) -> T:
        """Request any path of the API server. Raises Gone, Exists, RequestDenied."""
        return await self._ask(method, path, form, body=body, query=query)

    async def _ask(
        self,
        method: str,
        path: str,
        form: type[T],
        *,
        body: Body | None = None,
        query: Mapping[str, str] | None = None,
        unavailable_after_s: float | None = None,
    ) -> T:
        async def once() -> T:
            content = None if body is None else json.dumps(body).encode()
            patches = method == "PATCH"
            kind = "application/merge-patch+json" if patches else _JSON
            accept = _ONLY_METADATA if form is AnyList else _JSON
            headers = {**await self._headers(), "Content-Type": kind, "Accept": accept}
            with _connection_errors():
                answer = await self._client.request(
                    method, path, content=content, params=query, headers=headers
                )
            await self._check(answer)
            return msgspec.json.decode(answer.content, type=form)

        return await self._repeat(once, unavailable_after_s)

    async def _repeat(self, once: Callable[[], Awaitable[T]], limit_s: float | None) -> T:
        """Repeat while there is no answer. Raises RuntimeUnavailable."""
        now = asyncio.get_running_loop().time
        give_up = now() + (self._unavailable_after_s if limit_s is None else limit_s)
        tries = 0
        while True:
            try:
                return await once()
            except _NoAnswer as error:
                if now() >= give_up:
                    raise RuntimeUnavailable(_silence(error)) from error
            except AccessRefused as error:
                raise RuntimeUnavailable(str(error)) from error
            await asyncio.sleep(_PAUSES_S[min(tries, len(_PAUSES_S) - 1)])
            tries += 1

    async def _headers(self) -> dict[str, str]:
        token = await asyncio.to_thread(self._access.token)
        return {"Authorization": f"Bearer {token}"} if token else {}

    async def _check(self, answer: httpx.Response) -> None:
        """Raises what the status says; the body must be read, except for a success."""
        if answer.is_success:
            return
        message, reason = _message(answer)
        if answer.status_code == httpx.codes.UNAUTHORIZED:
            await asyncio.to_thread(self._access.refused)
            sent = answer.request.headers.get("Authorization", "")
            raise _CredentialRefused(self._access.refusal(sent.removeprefix("Bearer ")))
        if answer.status_code in (httpx.codes.NOT_FOUND, httpx.codes.GONE):
            raise Gone(message)
        if answer.status_code == httpx.codes.CONFLICT:
            is_known = reason == "AlreadyExists" or answer.request.method == "DELETE"
            raise Exists(message) if is_known else _NoAnswer(message)
        if answer.status_code in _BUSY and "admission webhook" not in message:
            raise _NoAnswer(message)
        raise RequestDenied(message, answer.status_code)

    @contextlib.asynccontextmanager
    async def _stream(
        self, path: str, query: Mapping[str, str], *, silence_s: float | None
    ) -> AsyncGenerator[httpx.Response]:
        """Open a stream that may be silent for `silence_s`. Raises StreamBroken, StreamSilent.

        A kubelet sends no headers before the first line: an answer may be silent from its start.
        """
        timeout = httpx.Timeout(CALL_S, read=silence_s)
        try:
            with _connection_errors():
                headers = await self._headers()
                async with self._client.stream(
                    "GET", path, params=query, headers=headers, timeout=timeout
                ) as answer:
                    if not answer.is_success:
                        await answer.aread()
                        await self._check(answer)
                    yield answer
        except (_NoAnswer, AccessRefused) as error:
            is_silent = isinstance(error.__cause__, httpx.ReadTimeout)
            broken = StreamSilent if is_silent else StreamBroken
            raise broken(str(error)) from error

    async def watch_lines(
        self, kind: str, query: Mapping[str, str], *, silence_s: float
    ) -> AsyncGenerator[bytes]:
        """Yield the events of a watch, one JSON text each. Raises Gone, StreamBroken."""
        rest = b""
        async with self._stream(self.path(kind), query, silence_s=silence_s) as answer:
            async for data in answer.aiter_bytes():
                *lines, rest = (rest + data).split(b"\n")
                for line in filter(None, lines):
                    yield line

    async def log(
        self, pod: str, container: str, *, since: str, follow: bool, silence_s: float
    ) -> AsyncGenerator[bytes]:
        """Yield a container's log with its times. Raises Gone, RequestDenied, StreamBroken.

        `since`: RFC 3339 in whole seconds, or empty. Raises StreamSilent after `silence_s`.
        """
        query = {"container": container, "timestamps": "true", "follow": str(follow).lower()}
        if since:
            query["sinceTime"] = since
        path = self.path("pods", pod, "log")
        async with self._stream(path, query, silence_s=silence_s) as answer:
            async for data in answer.aiter_bytes():
                yield data

    async def run(
        self,
        pod: str,
        container: str,
        argv: Sequence[str],
        *,
        stdin: bytes = b"",
        take: Callable[[bytes], None] | None = None,
        limit_s: float = EXEC_S,
    ) -> ExecResult:
        """Run a program in a container. Raises Gone, RequestDenied, StreamBroken.

        With `stdin`, the program must read exactly that many bytes: an older API server cannot
        close it. `take`: gets the output instead of the result. Breaks after `limit_s`.
        """
        limit = asyncio.timeout(limit_s)
        try:
            async with limit:
                return await self._run(pod, container, argv, stdin, take)
        except InvalidStatus as error:
            raise _exec_refusal(error) from error
        except (WebSocketException, OSError, TimeoutError, AccessRefused) as error:
            why = f"no end within {limit_s:g} s" if limit.expired() else str(error)
            raise StreamBroken(f"exec in {pod}: {why or type(error).__name__}") from error

    async def _run(
        self,
        pod: str,
        container: str,
        argv: Sequence[str],
        stdin: bytes,
        take: Callable[[bytes], None] | None,
    ) -> ExecResult:
        streams = ("stdout", "stderr", *(("stdin",) if stdin else ()))
        connecting = await self._connection(pod, "exec", container, streams, argv)
        async with connecting as connection:
            return await ExecStream(connection, take).run(stdin)

    async def open_terminal(
        self, pod: str, container: str, argv: Sequence[str]
    ) -> ClientConnection:
        """Run a program on a terminal. Raises Gone, RequestDenied, StreamBroken."""
        return await self._open(pod, "exec", container, ("stdin", "stdout", "tty"), argv)

    async def attach_stdin(self, pod: str, container: str) -> ClientConnection:
        """Attach to the stdin of a container. Raises Gone, RequestDenied, StreamBroken."""
        return await self._open(pod, "attach", container, ("stdin",))

    async def _open(
        self, pod: str, part: str, container: str, streams: Sequence[str], argv: Sequence[str] = ()
    ) -> ClientConnection:
        try:
            return await (await self._connection(pod, part, container, streams, argv))
        except InvalidStatus as error:
            raise _exec_refusal(error) from error
        except (WebSocketException, OSError, TimeoutError, AccessRefused) as error:
            raise StreamBroken(f"{part} in {pod}: {str(error) or type(error).__name__}") from error

    async def _connection(
        self, pod: str, part: str, container: str, streams: Sequence[str], argv: Sequence[str]
    ) -> connect:
        query = [("container", container), *((stream, "true") for stream in streams)]
        query += [("command", word) for word in argv]
        url = self.server.join(self.path("pods", pod, part)).copy_with(params=query)
        address = str(url.copy_with(scheme="wss" if url.scheme == "https" else "ws"))
        return connect(
            address,
            ssl=self._access.trust if url.scheme == "https" else None,
            subprotocols=_PROTOCOLS,  # type: ignore[arg-type]
            additional_headers=await self._headers(),
            compression=None,
            max_size=None,
            open_timeout=CALL_S,
            close_timeout=_CLOSE_S,
            ping_timeout=_PONG_S,
            proxy=None,
        )


def _exec_refusal(error: InvalidStatus) -> ClusterError:
    code = error.response.status_code
    body = (error.response.body or b"").decode(errors="replace").strip()
    if code == httpx.codes.NOT_FOUND:
        return Gone(body)
    return StreamBroken(body) if code in _BUSY else RequestDenied(body, code)


def _silence(error: _NoAnswer) -> str:
    """Return why there was no answer in time, for people."""
    if isinstance(error, _CredentialRefused):
        return str(error)
    if "CERTIFICATE_VERIFY_FAILED" in str(error):
        return (
            "the API server's certificate is not trusted: the certificate authority of the "
            f"backend or the kubeconfig is not that of the cluster, or is missing ({error})"
        )
    return f"the cluster's API server does not answer: {error}"


def _message(answer: httpx.Response) -> tuple[str, str]:
    """Return the API server's own message, else the status, and the reason in one word."""
    try:
        status = msgspec.json.decode(answer.content, type=Status)
    except (msgspec.DecodeError, httpx.ResponseNotRead):
        return f"HTTP {answer.status_code}", ""
    return status.message or f"HTTP {answer.status_code}", status.reason


@contextlib.contextmanager
def _connection_errors() -> Any:
    try:
        yield
    except (httpx.HTTPError, OSError) as error:
        raise _NoAnswer(str(error) or type(error).__name__) from error
