"""uvicorn inside `up`: given sockets, a call when it serves, and no signal handlers of its own."""

from __future__ import annotations

import contextlib
import errno
import socket
from collections.abc import Callable, Generator

import uvicorn

from kernel.listeners import bound_socket

MAX_PORT = 65535
_USUAL_PORT = 8090
_TRIED = 20
GRACE_S = 10  # what running streams get to end on a whole record


class PortTaken(RuntimeError):
    """The address is not to be had; the message says what to do."""


class EmbeddedServer(uvicorn.Server):
    """`on_started` runs in the loop's thread once requests are answered."""

    def __init__(self, *, on_started: Callable[[], None]) -> None:
        super().__init__(
            uvicorn.Config(
                "platform_site.asgi:application",
                http="apps.system.protocol:ProblemProtocol",
                log_level="warning",
                access_log=False,
                timeout_graceful_shutdown=GRACE_S,
                server_header=False,
                proxy_headers=False,  # TRUSTED_PROXIES decides, not loopback
            )
        )
        self._on_started = on_started

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        """The ASGI lifespan drains on SIGTERM and SIGINT, then calls `ask_to_exit`."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        for bound in sockets or ():
            listen(bound)  # before anything else starts
        await super().startup(sockets=sockets)
        if self.started:
            self._on_started()

    def ask_to_exit(self) -> None:
        self.should_exit = True


def listener(host: str, port: int) -> socket.socket:
    """A bound socket. Raises PortTaken."""
    try:
        return bound_socket(host, port)
    except OSError as error:
        raise _refused(error, host, port) from None


def listen(bound: socket.socket) -> None:
    """Let the kernel take connections. Raises PortTaken.

    An address that nobody listens on can be bound twice: who listens first has it.
    """
    try:
        bound.listen()
    except OSError as error:
        host, port = bound.getsockname()[:2]
        raise _refused(error, host, port) from None


def _refused(error: OSError, host: str, port: int) -> PortTaken:
    return PortTaken(
        f"cannot listen on {host}:{port} ({error.strerror}): {_way_out(error, host, port)}"
    )


def _way_out(error: OSError, host: str, port: int) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"PORT={_free_port(host, above=port)} make up"
    if error.errno == errno.EACCES:
        free = _free_port(host, above=_USUAL_PORT - 1)
        return f"a port from 1024 on needs no rights: PORT={free} make up"
    return "HOST must be an address of this machine: HOST=127.0.0.1 make up"


def _free_port(host: str, *, above: int) -> int:
    """Return the next port that can be had, else any."""
    for port in (*range(above + 1, min(above + _TRIED, MAX_PORT) + 1), 0):
        with contextlib.suppress(OSError), bound_socket(host, port) as free:
            return int(free.getsockname()[1])
    return _USUAL_PORT
