"""`mock serve`: one suite's mocks on a port of their own, without a store and without Django.

`manage.py` calls `main` before it imports Django, so that the command serves within half a second.
Facts go to stdout, what happens later (a reload, an edit that breaks something) to stderr.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import errno
import ipaddress
import json
import re
import signal
import socket
import sys
import time
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import uvicorn

from apps.mocks.domain.calls import JournalEntry
from apps.mocks.refusals import PortTaken
from apps.mocks.served_files import NothingToServe, Reading, ServedFiles
from apps.mocks.served_suite import ServedSuite
from kernel.errors import FieldError, PlatformError
from kernel.listeners import bound_socket
from surfaces.model import Surface
from surfaces.warnings import PackageWarning

DEFAULT_PORT: Final = 8095
GRACE_S: Final = 2  # for calls that are being answered when the command is stopped
# As those of the other commands (apps.operations.api.ExitCode), which need Django.
OK, ERROR, USAGE, NOT_FOUND, CONFLICT = 0, 1, 2, 3, 5
_MAX_PORT: Final = 65535
_SHOWN_WARNINGS: Final = 20
_CONTROL: Final = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f]")
_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
Place = FieldError | PackageWarning

_HELP: Final = (
    "Serve the mocks of one suite on a port of their own: no store, no sign-in. "
    "The files are watched; an edit answers the next call, and one that breaks something keeps "
    "the last good version. Ctrl-C ends it."
)
_EPILOG: Final = """\
examples:
  manage.py mock serve examples/oci-suites/shop
  manage.py mock serve shop                       a suite of SUITES_DIR
  manage.py mock serve openapi.yaml --port 9000   a contract alone
  manage.py mock serve shop --log                 show each call and its match
  manage.py mock serve shop --grpc-port 8092      the methods of its protos as well
  manage.py mock serve shop -o json | jq .url

exit codes: 0 stopped, 1 the files break a rule, 2 usage, 3 not found, 5 the port is in use
"""


class Command:
    """One `mock serve`; `began` is when the process did, by time.monotonic()."""

    def __init__(self, program: str, suites_folder: Callable[[], Path], *, began: float) -> None:
        self._program = program
        self._suites_folder = suites_folder
        self._began = began

    def run(self, arguments: Sequence[str]) -> int:
        """Serve until a signal; return the exit code."""
        options = _parser(self._program).parse_args(arguments)
        try:
            bound = bound_socket(options.host, options.port)
            bound.listen()
        except (OSError, OverflowError) as error:
            return _cannot_listen(error, options.host, options.port)
        with bound:
            try:
                files = self._found(options.suite)
                served = ServedSuite(files, _base_url(bound), kept=_say_kept)
            except PlatformError as error:
                _complain(error.problem_code, error.detail, error.errors)
                return NOT_FOUND if isinstance(error, NothingToServe) else ERROR
            return self._serve(served, bound, options)

    def _found(self, text: str) -> ServedFiles:
        """Ask for the folder of suites, which takes settings, only where no file is meant."""
        place = Path(text)
        if place.exists():
            return ServedFiles(place)
        return ServedFiles.find(text, self._suites_folder())

    def _serve(self, served: ServedSuite, bound: socket.socket, options: argparse.Namespace) -> int:
        from apps.mocks.standalone_plane import StandalonePlane

        show = _Output(as_json=options.output == "json")
        plane = StandalonePlane(
            served, logged=show.call if options.log else None, allowed=options.proxy_to
        )

        async def started() -> None:
            plane.start()
            if options.grpc_port is not None:
                port = await plane.listen_for_grpc(options.host, options.grpc_port)
                show.grpc = f"{options.host}:{port}"
            served.start(reloaded)
            show.facts(served, _base_url(bound), took_s=time.monotonic() - self._began)

        async def ending() -> None:
            await plane.end_grpc()

        def reloaded(reading: Reading) -> None:
            plane.renew()
            _say_reloaded(reading)

        server = _Server(
            plane, on_started=started, on_stopping=plane.close_channels, on_ending=ending
        )
        try:
            server.run(sockets=[bound])
        except PortTaken as error:
            _tell(f"error {error}: choose another one with --grpc-port")
            return CONFLICT
        finally:
            served.stop()
            plane.stop()
        return OK


def _parser(program: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=program,
        description=_HELP,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "suite", help="a suite's folder, a folder of contracts, a contract, or the id of a suite"
    )
    parser.add_argument(
        "--port", type=_port, default=DEFAULT_PORT, help=f"default {DEFAULT_PORT}; 0: any free one"
    )
    parser.add_argument(
        "--host",
        default="127.0.0.1",
        help="the address to listen on; default 127.0.0.1, which only this machine reaches",
    )
    parser.add_argument(
        "--grpc-port",
        type=_port,
        metavar="PORT",
        help="also serve gRPC, with reflection and health, on this port (0: any free one)",
    )
    parser.add_argument(
        "--proxy-to",
        type=_network,
        action="append",
        default=[],
        metavar="CIDR",
        help="a private network that proxy fallbacks may reach, such as 127.0.0.1/32; repeatable",
    )
    parser.add_argument("--log", action="store_true", help="show each call with its match")
    parser.add_argument(
        "-o", "--output", choices=("text", "json"), default="text", help="default text"
    )
    return parser


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > _MAX_PORT:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port (0 to {_MAX_PORT})")
    return int(text)


def _network(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    try:
        return ipaddress.ip_network(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _base_url(bound: socket.socket) -> str:
    host, port = bound.getsockname()[:2]
    address = ipaddress.ip_address(host)
    if address.is_unspecified:
        host = "127.0.0.1"
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _cannot_listen(error: Exception, host: str, port: int) -> int:
    reason = getattr(error, "strerror", None) or str(error)
    advice = "choose another one with --port"
    is_taken = isinstance(error, OSError) and error.errno == errno.EADDRINUSE
    if not is_taken:
        advice = "--host must be an address of this machine, --port one that you may use"
    _tell(f"error cannot listen on {host}:{port} ({reason}): {advice}")
    return CONFLICT if is_taken else ERROR


class _Server(uvicorn.Server):
    """Calls `on_started` once it serves; the first signal ends it, after the calls in hand."""

    def __init__(
        self,
        app: Any,
        *,
        on_started: Callable[[], Awaitable[None]],
        on_stopping: Callable[[], None],
        on_ending: Callable[[], Awaitable[None]],
    ) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http="httptools",
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
        self._on_ending = on_ending

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
        await self._on_started()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await self._on_ending()
        await super().shutdown(sockets=sockets)


def _websocket_protocol(**arguments: Any) -> asyncio.Protocol:
    """Import the protocol at the first WebSocket: it takes a fifth of the start."""
    from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

    return WebSocketsSansIOProtocol(**arguments)


class _Output:
    """What the command prints on stdout."""

    def __init__(self, *, as_json: bool) -> None:
        self.as_json = as_json
        self.grpc = ""

    def facts(self, served: ServedSuite, base_url: str, *, took_s: float) -> None:
        reading = served.reading
        if self.as_json:
            facts = _facts(served, base_url, took_s) | ({"grpc": self.grpc} if self.grpc else {})
            self._line(json.dumps(facts, ensure_ascii=False))
            return
        surfaces = reading.content.surfaces
        self._line(f"{reading.content.title} ({served.files.suite_id}) on {base_url}")
        width = max(len(surface.surface_id) for surface in surfaces)
        for surface in surfaces:
            self._line(f"  {surface.surface_id:{width}}  {surface.mock_host}  {_size(surface)}")
        if self.grpc:
            self._line(f"gRPC with reflection on {self.grpc}")
        self._line(f"try: {_first_curl(surfaces)}")
        self._line(f"{_counted(reading)}; started in {took_s * 1000:.0f} ms, Ctrl-C ends it")
        _list(reading.warnings)

    def call(self, entry: JournalEntry) -> None:
        self._line(json.dumps(_call(entry), ensure_ascii=False) if self.as_json else _said(entry))

    def _line(self, text: str) -> None:
        with contextlib.suppress(BrokenPipeError):  # `… | head` has read enough; go on serving
            sys.stdout.write(f"{_CONTROL.sub('?', text)}\n")
            sys.stdout.flush()


def _size(surface: Surface) -> str:
    return f"{len(surface.operations)} operation{'s' * (len(surface.operations) != 1)}"


def _counted(reading: Reading) -> str:
    warnings = len(reading.warnings)
    operations = reading.operations
    counted = f"{operations} operation{'s' * (operations != 1)}"
    return f"{counted}, {warnings} warning{'s' * (warnings != 1)}"


def _first_curl(surfaces: Sequence[Surface]) -> str:
    """Return the command of the first operation with an example, otherwise of the first."""
    operations = [each for surface in surfaces for each in surface.operations]
    return next((each for each in operations if each.exchanges), operations[0]).curl_command


def _facts(served: ServedSuite, base_url: str, took_s: float) -> dict[str, Any]:
    surfaces = served.reading.content.surfaces
    return {
        "suiteId": served.files.suite_id,
        "url": base_url,
        "files": str(served.files.place),
        "surfaces": [
            {"id": each.surface_id, "url": each.mock_host, "operations": len(each.operations)}
            for each in surfaces
        ],
        "operations": served.reading.operations,
        "curl": _first_curl(surfaces),
        "warnings": [each.as_dict() for each in served.reading.warnings],
        "startedInMs": round(took_s * 1000),
    }


def _call(entry: JournalEntry) -> dict[str, Any]:
    document: dict[str, Any] = {
        "time": entry.time.isoformat(timespec="milliseconds"),
        "method": entry.method,
        "path": entry.path,
        "surfaceId": entry.surface_id,
        "outcome": str(entry.outcome),
        "status": entry.status,
        "durationMs": round(entry.duration_ms, 3),
    }
    optional: Mapping[str, Any] = {
        "operationId": entry.operation_id,
        "matchedExample": entry.matched_example,
        "stateKey": entry.state_key,
        "nearest": entry.nearest,
    }
    return document | {key: value for key, value in optional.items() if value}


def _said(entry: JournalEntry) -> str:
    where = entry.operation_id or entry.surface_id or "-"
    what = entry.matched_example or str(entry.outcome)
    state = f", state {entry.state_key}" if entry.state_key else ""
    nearest = f"; nearest: {json.dumps(dict(entry.nearest))}" if entry.nearest else ""
    return (
        f"{entry.time:%H:%M:%S} {entry.status} {entry.method} {entry.path} -> "
        f"{where}: {what}{state} ({entry.duration_ms:.1f} ms){nearest}"
    )


def _say_reloaded(reading: Reading) -> None:
    _tell(f"reloaded: {_counted(reading)}")
    _list(reading.warnings)


def _say_kept(reason: str, places: Sequence[Place]) -> None:
    _tell(f"kept the last good version: {reason}")
    _list(places)


def _complain(code: str, detail: str, places: Sequence[Place]) -> None:
    _tell(f"error {code}: {detail}")
    _list(places)


def _list(places: Sequence[Place]) -> None:
    for each in places[:_SHOWN_WARNINGS]:
        at = ":".join(str(part) for part in (each.file, each.line, each.column) if part)
        _tell(f"  {at}: {each.detail}" if at else f"  {each.detail}")
    if len(places) > _SHOWN_WARNINGS:
        _tell(f"  and {len(places) - _SHOWN_WARNINGS} more")


def _tell(text: str) -> None:
    with contextlib.suppress(BrokenPipeError):
        sys.stderr.write(f"{_CONTROL.sub('?', text)}\n")
        sys.stderr.flush()
