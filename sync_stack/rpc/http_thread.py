"""A small HTTP server on a thread of its own, beside an event loop that does other work."""

from __future__ import annotations

import socket
import threading
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import uvicorn

from kernel.background import BackgroundThread

Scope = MutableMapping[str, Any]  # of an ASGI application, as `Receive` and `Send`
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class HttpThread:
    """Serve an ASGI application on a bound socket until `stop`; a server that fails starts again.

    uvicorn leaves the process's signals alone, because it does not run on the main thread.
    """

    def __init__(self, name: str, app: Any, listener: socket.socket) -> None:
        self._app = app
        self._listener = listener
        self._ended = threading.Event()
        self._server: uvicorn.Server | None = None
        self._thread = BackgroundThread(name, self._serve, ended=self._ended)

    def start(self) -> None:
        self._thread.start()

    def end(self) -> None:
        """Take no more requests; returns at once."""
        self._ended.set()
        if self._server is not None:
            self._server.should_exit = True

    def stop(self, timeout_s: float) -> None:
        """End, wait for requests under way, and close the socket."""
        self.end()
        self._thread.join(timeout_s)
        self._listener.close()

    def _serve(self) -> None:
        config = uvicorn.Config(
            self._app, lifespan="off", log_config=None, access_log=False, ws="none"
        )
        self._server = uvicorn.Server(config)
        self._server.should_exit = self._ended.is_set()
        with self._listener.dup() as listener:  # uvicorn closes what it is given
            self._server.run(sockets=[listener])
        if not self._ended.is_set():
            raise RuntimeError("the HTTP server ended by itself")
