"""`mock serve`: one suite's mocks on a port of their own, without a store and without Django.

`manage.py` runs `Command` before it imports Django: the command serves within half a second.
Facts go to stdout, what happens later (a reload, an edit that breaks something) to stderr.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import errno
import gc
import ipaddress
import os
import signal
import socket
import time
from collections.abc import Awaitable, Callable, Generator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import uvicorn

from kernel.errors import PlatformError
from kernel.extras import missing_extra
from kernel.http_protocol import ProblemProtocol
from kernel.listeners import bound_socket
from mocks.standalone.arguments import parser_of
from mocks.standalone.output import (
    Output,
    ServerFacts,
    report,
    report_error,
    report_kept,
    report_reload,
)
from mocks.standalone.plane import StandalonePlane
from mocks.standalone.served_files import NothingToServe, Reading, ServedFiles
from mocks.standalone.served_suite import ServedSuite

if TYPE_CHECKING:
    from mocks.standalone.plane import StandalonePlane

GRACE_S: Final = 2  # for calls that are being answered when the command is stopped
# As those of the other commands (apps.operations.api.ExitCode), which need Django.
OK, ERROR, NOT_FOUND, CONFLICT = 0, 1, 3, 5
_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


class LibraryMissing(PlatformError):
    code = "invalid_parameter"


class Command:
    """One `mock serve`; `began` is when the process did, by time.monotonic().

    With `suites_folder`, ids of the suites there are understood, too.
    """

    def __init__(
        self, program: str, suites_folder: Callable[[], Path] | None = None, *, began: float
    ) -> None:
        self._program = program
        self._suites_folder = suites_folder
        self._began = began

    def run(self, arguments: Sequence[str]) -> int:
        """Serve until a signal; return the exit code."""
        parser = parser_of(self._program, takes_ids=self._suites_folder is not None)
        return self.serve(parser.parse_args(arguments))

    def serve(self, options: argparse.Namespace) -> int:
        try:
            _require_libraries(options)
            files = self._find_files(options.suite)
        except PlatformError as error:
            return _unusable(error)
        try:
            bound = bound_socket(options.host, options.port)
            bound.listen()
        except (OSError, OverflowError) as error:
            return _cannot_listen(error, options.host, options.port)
        with bound:
            try:
                served = ServedSuite(files, _base_url(bound), kept=report_kept)
            except PlatformError as error:
                return _unusable(error)
            return self._serve(served, bound, options)

    def _find_files(self, text: str) -> ServedFiles:
        """Ask for the folder of suites, which takes settings, only where no file is meant."""
        place = Path(text)
        if place.exists() or self._suites_folder is None:
            return ServedFiles.find(text)
        return ServedFiles.find(text, self._suites_folder())

    def _serve(self, served: ServedSuite, bound: socket.socket, options: argparse.Namespace) -> int:
        show = Output(as_json=options.output == "json")
        plane = StandalonePlane(
            served,
            logged=show.call if options.log else None,
            allowed=options.proxy_to,
            validate=options.validate,
        )

        async def start() -> int:
            grpc_port = None
            if options.grpc_port is not None:
                grpc_port = await plane.start_grpc(options.host, options.grpc_port)
                if not grpc_port:
                    return _cannot_listen(_address_in_use(), options.host, options.grpc_port)
            plane.start()
            served.start(apply_reload)
            grpc = f"{options.host}:{grpc_port}" if grpc_port else ""
            took_s = time.monotonic() - self._began
            show.facts(ServerFacts(served, _base_url(bound), grpc, took_s))
            return OK

        def apply_reload(reading: Reading) -> None:
            plane.renew()
            report_reload(reading)

        server = _MockServer(plane, on_started=start, on_stopping=plane.close_channels)
        try:
            server.run(sockets=[bound])
        finally:
            served.stop()
            plane.stop()
        return server.exit_code


def _require_libraries(options: argparse.Namespace) -> None:
    """Raise LibraryMissing for an option that needs what is not installed."""
    if options.grpc_port is not None and (missing := missing_extra("grpc")):
        raise LibraryMissing(f"--grpc-port {missing}")


def _base_url(bound: socket.socket) -> str:
    host, port = bound.getsockname()[:2]
    address = ipaddress.ip_address(host)
    if address.is_unspecified:
        host = "127.0.0.1"
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _unusable(error: PlatformError) -> int:
    report_error(error.problem_code, error.detail, error.errors)
    return NOT_FOUND if isinstance(error, NothingToServe) else ERROR


def _address_in_use() -> OSError:
    return OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))


def _cannot_listen(error: Exception, host: str, port: int) -> int:
    reason = getattr(error, "strerror", None) or str(error)
    advice = "choose another one with --port"
    is_taken = isinstance(error, OSError) and error.errno == errno.EADDRINUSE
    if not is_taken:
        advice = "--host must be an address of this machine, --port one that you may use"
    report(f"error cannot listen on {host}:{port} ({reason}): {advice}")
    return CONFLICT if is_taken else ERROR


class _MockServer(uvicorn.Server):
    """Calls `on_started` once it serves; the first signal ends it, after the calls in hand."""

    def __init__(
        self,
        app: StandalonePlane,
        *,
        on_started: Callable[[], Awaitable[int]],
        on_stopping: Callable[[], None],
    ) -> None:
        self.exit_code = OK
        self._plane = app
        super().__init__(
            uvicorn.Config(
                app,
                http=ProblemProtocol,
                ws=_websocket_protocol,  # type: ignore[arg-type]  # called as the class would be
                loop="uvloop",
                lifespan="off",
                log_config=None,
                log_level="warning",
                access_log=False,
                timeout_graceful_shutdown=GRACE_S,
                server_header=False,
                proxy_headers=False,
            )
        )
        self._on_started = on_started
        self._on_stopping = on_stopping

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        """Uvicorn's own raises the signal again at the end, which is no clean end of a command."""
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            loop.add_signal_handler(number, self._stop)
        yield

    def _stop(self) -> None:
        self.force_exit = self.should_exit  # again: at once
        self.should_exit = True
        self._on_stopping()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        self.exit_code = await self._on_started()
        gc.enable()
        gc.freeze()  # what serves stays for good, and no collection looks at it
        self.should_exit = self.should_exit or self.exit_code != OK

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await super().shutdown(sockets=sockets)
        await self._plane.stop_grpc()


def _websocket_protocol(**arguments: Any) -> asyncio.Protocol:
    """Import the protocol at the first WebSocket: it takes a fifth of the start."""
    from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

    return WebSocketsSansIOProtocol(**arguments)
