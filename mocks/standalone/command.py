"""`mock serve`: one suite's mocks on a port of their own, without a store and without Django.

`manage.py` runs `Command` before it imports Django: the command serves within half a second.
Facts go to stdout, what happens later (a reload, an edit that breaks something) to stderr.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import errno
import functools
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
from uvicorn.importer import import_from_string

from kernel.errors import PlatformError
from kernel.extras import Extra, missing_extra
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
    from mocks.standalone.tls import Tls

GRACE_S: Final = 2  # for calls that are being answered when the command is stopped
# As those of the other commands (apps.operations.api.ExitCode), which need Django.
OK, ERROR, USAGE, NOT_FOUND, CONFLICT = 0, 1, 2, 3, 5
_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


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
        if (refusal := _refusal_of(options)) is not None:
            report(f"error {refusal[1]}")
            return refusal[0]
        try:
            files = self._find_files(options.suite)
            tls = _tls_of(options)
        except PlatformError as error:
            return _unusable(error)
        with contextlib.ExitStack() as opened:
            listeners = _Listeners(tls)
            for name, port in (("--port", options.port), ("--https-port", options.https_port)):
                if port is None:
                    continue
                try:
                    bound = opened.enter_context(bound_socket(options.host, port))
                    bound.listen()
                except (OSError, OverflowError) as error:
                    return _cannot_listen(error, options.host, port, name)
                is_https = name == "--https-port" or options.https_port is None
                listeners.add(bound, is_https=tls is not None and is_https)
            try:
                served = ServedSuite(files, listeners.base_url, kept=report_kept)
            except PlatformError as error:
                return _unusable(error)
            return self._serve(served, listeners, options)

    def _find_files(self, text: str) -> ServedFiles:
        """Ask for the folder of suites, which takes settings, only where no file is meant."""
        place = Path(text)
        if place.exists() or self._suites_folder is None:
            return ServedFiles.find(text)
        return ServedFiles.find(text, self._suites_folder())

    def _serve(
        self, served: ServedSuite, listeners: _Listeners, options: argparse.Namespace
    ) -> int:
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
                pair = listeners.pair_of_base
                grpc_port = await plane.start_grpc(options.host, options.grpc_port, pair)
                if not grpc_port:
                    taken = (_address_in_use(), options.host, options.grpc_port)
                    return _cannot_listen(*taken, "--grpc-port")
            plane.start()
            served.start(apply_reload)
            grpc = f"{options.host}:{grpc_port}" if grpc_port else ""
            took_s = time.monotonic() - self._began
            show.facts(
                ServerFacts(
                    served, listeners.base_url, grpc, took_s, listeners.https_url, listeners.trust
                )
            )
            return OK

        def apply_reload(reading: Reading) -> None:
            plane.renew()
            report_reload(reading)

        server = _MockServer(plane, listeners, on_started=start, on_stopping=plane.close_channels)
        try:
            server.run(sockets=listeners.plain)
        finally:
            served.stop()
            plane.stop()
        return server.exit_code


class _Listeners:
    """The sockets of the command, plain ones and those with TLS, and their addresses."""

    def __init__(self, tls: Tls | None) -> None:
        self.tls = tls
        self.plain: list[socket.socket] = []
        self.secure: list[socket.socket] = []

    def add(self, bound: socket.socket, *, is_https: bool) -> None:
        (self.secure if is_https else self.plain).append(bound)

    @property
    def base_url(self) -> str:
        return _url("http", self.plain[0]) if self.plain else self.https_url

    @property
    def https_url(self) -> str:
        return _url("https", self.secure[0]) if self.secure else ""

    @property
    def trust(self) -> str:
        """Return the file of a certificate that clients know only if they are told."""
        return str(self.tls.trust) if self.tls is not None and self.tls.trust else ""

    @property
    def pair_of_base(self) -> tuple[bytes, bytes] | None:
        """Return key and certificate in PEM where nothing is plain: for gRPC then, too."""
        if self.tls is None or self.plain:
            return None
        return self.tls.key.read_bytes(), self.tls.certificate.read_bytes()


def _refusal_of(options: argparse.Namespace) -> tuple[int, str] | None:
    """Return the exit code and why the options cannot be served; None if they can."""
    wanted: Sequence[tuple[bool, str, Extra]] = (
        (options.grpc_port is not None, "--grpc-port", "grpc"),
        (_wants_tls(options), "--tls", "tls"),
    )
    for is_wanted, option, extra in wanted:
        if is_wanted and (missing := missing_extra(extra)):
            return ERROR, f"{option} {missing}"
    if (options.tls_cert is None) != (options.tls_key is None):
        return USAGE, "usage: --tls-cert and --tls-key need each other"
    return None


def _wants_tls(options: argparse.Namespace) -> bool:
    return options.tls or options.https_port is not None or options.tls_cert is not None


def _tls_of(options: argparse.Namespace) -> Tls | None:
    """Import TLS where it is asked for; raise CertificateUnusable."""
    if not _wants_tls(options):
        return None
    made: type[Tls] = import_from_string("mocks.standalone.tls:Tls")
    if options.tls_cert is not None:
        return made(options.tls_cert, options.tls_key)
    return made.own(options.host)


def _url(scheme: str, bound: socket.socket) -> str:
    host, port = bound.getsockname()[:2]
    address = ipaddress.ip_address(host)
    if address.is_unspecified:
        host = "127.0.0.1"
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


def _unusable(error: PlatformError) -> int:
    report_error(error.problem_code, error.detail, error.errors)
    return NOT_FOUND if isinstance(error, NothingToServe) else ERROR


def _address_in_use() -> OSError:
    return OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))


def _cannot_listen(error: Exception, host: str, port: int, option: str) -> int:
    reason = getattr(error, "strerror", None) or str(error)
    advice = f"choose another one with {option}"
    is_taken = isinstance(error, OSError) and error.errno == errno.EADDRINUSE
    if not is_taken:
        advice = f"--host must be an address of this machine, {option} one that you may use"
    report(f"error cannot listen on {host}:{port} ({reason}): {advice}")
    return CONFLICT if is_taken else ERROR


class _MockServer(uvicorn.Server):
    """Calls `on_started` once it serves; the first signal ends it, after the calls in hand."""

    def __init__(
        self,
        app: StandalonePlane,
        listeners: _Listeners,
        *,
        on_started: Callable[[], Awaitable[int]],
        on_stopping: Callable[[], None],
    ) -> None:
        self.exit_code = OK
        self._plane = app
        self._listeners = listeners
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
        await self._listen_securely()
        self.exit_code = await self._on_started()
        gc.enable()
        gc.freeze()  # what serves stays for good, and no collection looks at it
        self.should_exit = self.should_exit or self.exit_code != OK

    async def _listen_securely(self) -> None:
        made: Callable[..., asyncio.Protocol] = self.config.http_protocol_class
        protocol = functools.partial(made, self.config, self.server_state, self.lifespan.state)
        for each in self._listeners.secure:
            assert self._listeners.tls is not None
            context, limit_s = self._listeners.tls.context, self._listeners.tls.handshake_s
            server = await asyncio.get_running_loop().create_server(
                protocol, sock=each, ssl=context, ssl_handshake_timeout=limit_s
            )
            self.servers.append(server)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await super().shutdown(sockets=sockets)
        await self._plane.stop_grpc()


def _websocket_protocol(**arguments: Any) -> asyncio.Protocol:
    """Import the protocol at the first WebSocket: it takes a fifth of the start."""
    from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

    return WebSocketsSansIOProtocol(**arguments)
