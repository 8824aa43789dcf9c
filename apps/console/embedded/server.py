"""The servers of `up`: uvicorn on given sockets, the signals that stop it, and a Celery worker."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import os
import signal
import socket
import threading
import uuid
import warnings
from collections.abc import Callable, Generator
from types import FrameType
from typing import Any

import uvicorn
from celery.exceptions import SecurityWarning

from apps.console import conf
from apps.operations.api import celery_application
from kernel.background import BackgroundThread
from kernel.errors import NotFound
from kernel.listeners import bound_socket
from kernel.problems import problem_document

SIGNALS = (signal.SIGTERM, signal.SIGINT)
MAX_PORT = 65535
_USUAL_PORT = 8090
_MOCKS = "/mocks/"
_TRIED = 20
GRACE_S = 10  # for running streams to end after a whole record


class AddressTaken(RuntimeError):
    """The address cannot be used; the message says what to do."""


class MocksAlone:
    """An application that answers only mocks where containers reach it, at the address `host`.

    Steps can call the mocks of their run; sign-in, API and pages are for this machine.
    """

    def __init__(self, application: Any, host: str) -> None:
        self._application = application
        self._host = host

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        reached = (scope.get("server") or ("",))[0]
        if reached != self._host or scope["path"].startswith(_MOCKS):
            await self._application(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 4404})
        else:
            await _refuse(scope, send)


async def _refuse(scope: Any, send: Any) -> None:
    error = NotFound("this address serves mocks only, to the containers of runs")
    request_id = uuid.uuid4().hex
    document = problem_document(error, instance=scope["path"], request_id=request_id)
    headers = [
        (b"content-type", b"application/problem+json"),
        (b"x-request-id", request_id.encode()),
    ]
    await send({"type": "http.response.start", "status": document["status"], "headers": headers})
    await send({"type": "http.response.body", "body": json.dumps(document).encode()})


class _Config(uvicorn.Config):
    containers_host = ""

    def load(self) -> None:
        super().load()
        if self.containers_host:
            self.loaded_app = MocksAlone(self.loaded_app, self.containers_host)


class EmbeddedServer(uvicorn.Server):
    """Calls `on_started` in the loop's thread once it serves requests."""

    def __init__(self, *, on_started: Callable[[], None]) -> None:
        self._own_config = _Config(
            "platform_site.asgi:application",
            http="kernel.http_protocol:ProblemProtocol",
            log_level="warning",
            access_log=False,
            timeout_graceful_shutdown=GRACE_S,
            server_header=False,
            proxy_headers=False,  # TRUSTED_PROXIES decides, not loopback
        )
        super().__init__(self._own_config)
        self._on_started = on_started

    def serve_mocks_alone_at(self, host: str) -> None:
        """Answer only mocks at this address, which containers reach; call it before serving."""
        self._own_config.containers_host = host

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        """Leave the signals to the ASGI lifespan, which drains and then calls `ask_to_exit`."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        for bound in sockets or ():
            listen(bound)  # before anything else starts
        await super().startup(sockets=sockets)
        if self.started:
            self._on_started()

    def ask_to_exit(self) -> None:
        self.should_exit = True


def announce_signals(say: Callable[[str], None], *, at_once: Callable[[], None]) -> None:
    """Install handlers that `say` what a signal does; call it once the server has started.

    The first signal drains. A second one calls `at_once` and ends the process as kill -9 would;
    the next start adopts the running steps.
    """
    loop = asyncio.get_running_loop()
    drains = {number: signal.getsignal(number) for number in SIGNALS}
    received: list[int] = []

    def on_signal(number: int, frame: FrameType | None) -> None:
        received.append(number)
        if len(received) > 1:
            at_once()
            os._exit(128 + number)
        loop.call_soon_threadsafe(say, "stopping: streams end, then the runner (again: at once)")
        drain = drains[signal.Signals(number)]
        assert callable(drain)
        drain(number, frame)

    for number in SIGNALS:
        signal.signal(number, on_signal)


def listener(host: str, port: int) -> socket.socket:
    """Return a bound socket; raise AddressTaken."""
    try:
        return bound_socket(host, port)
    except OSError as error:
        raise _port_taken(error, host, port) from None


def listen(bound: socket.socket) -> None:
    """Listen on a bound socket; raise AddressTaken.

    Two processes can bind the same address; the first one that listens has it.
    """
    try:
        bound.listen()
    except OSError as error:
        host, port = bound.getsockname()[:2]
        raise _port_taken(error, host, port) from None


def _port_taken(error: OSError, host: str, port: int) -> AddressTaken:
    return AddressTaken(
        f"cannot listen on {host}:{port} ({error.strerror}): {_advice(error, host, port)}"
    )


def _advice(error: OSError, host: str, port: int) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"PORT={_free_port(host, above=port)} {conf.start_command()}"
    if error.errno == errno.EACCES:
        free = _free_port(host, above=_USUAL_PORT - 1)
        return f"ports from 1024 need no privileges: PORT={free} {conf.start_command()}"
    return f"HOST must be an address of this machine: HOST=127.0.0.1 {conf.start_command()}"


def _free_port(host: str, *, above: int) -> int:
    """Return the next free port, else any."""
    for port in (*range(above + 1, min(above + _TRIED, MAX_PORT) + 1), 0):
        with contextlib.suppress(OSError), bound_socket(host, port) as free:
            return int(free.getsockname()[1])
    return _USUAL_PORT


class CeleryThread:
    """Executes tasks from `start()` to `stop()`, which waits for the running ones.

    A worker that exits after an internal error is replaced.
    """

    def __init__(self) -> None:
        # it warns root about tasks in pickle; ours are JSON, from this process
        warnings.filterwarnings("ignore", category=SecurityWarning)
        self._ended = threading.Event()
        self._worker: Any = _worker()
        self._used = False
        self._thread = BackgroundThread("celery", self._work, ended=self._ended)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._ended.set()
        self._worker.stop()
        self._thread.join(10)

    def _work(self) -> None:
        if self._used:
            self._worker = _worker()
        self._used = True
        self._worker.start()
        if not self._ended.is_set():
            raise RuntimeError(
                f"the Celery worker exited unexpectedly with code {self._worker.exitcode}"
            )


def _worker() -> Any:
    return celery_application().Worker(
        pool="threads",
        concurrency=2,
        without_heartbeat=True,
        without_mingle=True,
        without_gossip=True,
        loglevel="WARNING",
        quiet=True,
    )
