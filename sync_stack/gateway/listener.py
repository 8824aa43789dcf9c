"""A listening socket, plain or TLS; TLS refuses plain HTTP with a readable message."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
from email.utils import formatdate
from functools import partial
from typing import Any, Final

from uvicorn.config import Config
from uvicorn.server import ServerState

from kernel.background import keep_running
from kernel.listeners import bound_socket
from sync_stack.configuration.startup import StartRefused, unavailable
from sync_stack.gateway.conf import Address
from sync_stack.gateway.protocol import GatewayProtocol, broken_request
from sync_stack.rpc.tls import TlsFiles, TlsPair, TlsUnreadable

log: Final = logging.getLogger("partita.sync.gateway")

IDLE_S: Final = 60
HANDSHAKE_S: Final = 10.0
TLS_RELOAD_S: Final = 10.0
_BACKLOG: Final = 2048
_TLS_HANDSHAKE: Final = 0x16
_ACCEPT_PAUSE_S: Final = 0.1
_PLAIN_ON_TLS: Final = "this port speaks HTTPS: use https:// in the payload URL"


class InboundTls:
    """The TLS context of the listener; new handshakes use changed files. Raises StartRefused."""

    def __init__(self, files: TlsFiles) -> None:
        self._files = files
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            self._pair: TlsPair = files.read()
            self.context.load_cert_chain(files.cert, files.key)
        except (TlsUnreadable, ssl.SSLError, OSError) as error:
            raise StartRefused([f"GATEWAY_TLS_CERT, GATEWAY_TLS_KEY: {error}"]) from None

    async def watch(self, interval_s: float = TLS_RELOAD_S) -> None:
        while True:
            await asyncio.sleep(interval_s)
            await asyncio.to_thread(self.reload)

    def reload(self) -> None:
        """Load changed files; keep the last ones if the new ones cannot be used."""
        try:
            pair = self._files.read()
            if pair != self._pair:
                self.context.load_cert_chain(self._files.cert, self._files.key)
                self._pair = pair
                log.info("new TLS certificate", extra={"event": "tls_reloaded"})
        except (TlsUnreadable, ssl.SSLError, OSError) as error:
            log.warning("TLS files are not usable: %s", error, extra={"event": "tls_failed"})


class Listener:
    def __init__(self, app: Any, address: Address, tls: InboundTls | None = None) -> None:
        self._address = address
        self._tls = tls
        self._state = ServerState()
        self._config = Config(
            app,
            interface="asgi3",
            lifespan="off",
            ws="none",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            timeout_keep_alive=IDLE_S,
        )
        self._config.load()
        logging.getLogger("uvicorn.error").setLevel(logging.ERROR)  # bad requests are no warnings
        self._tasks: set[asyncio.Task[None]] = set()
        self._socket: socket.socket | None = None
        self.port = address.port  # when it is 0, the one that was chosen, after `start`
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        """Raise StartRefused when the address is unavailable."""
        host, port = self._address.host, self._address.port
        try:
            self._socket = bound_socket(host, port)
        except OSError as error:
            raise unavailable(f"cannot listen on {host}:{port}: {error.strerror}") from None
        self.port = int(self._socket.getsockname()[1])
        _ = self._start_task(keep_running("date", self._update_date))
        if self._tls is None:
            loop = asyncio.get_running_loop()
            self._server = await loop.create_server(
                self._protocol, sock=self._socket, backlog=_BACKLOG
            )
        else:
            self._socket.listen(_BACKLOG)
            self._socket.setblocking(False)  # noqa: FBT003 - the socket module's own signature
            accept = partial(self._accept, self._socket, self._tls.context)
            self._accepting = self._start_task(keep_running("accept", accept))

    async def stop_listening(self) -> None:
        """Refuse new connections and close idle ones."""
        if self._server is not None:
            self._server.close()
        elif self._socket is not None:
            self._accepting.cancel()
            self._socket.close()
        for connection in tuple(self._state.connections):
            connection.shutdown()

    async def drain(self, timeout_s: float) -> None:
        """Wait for requests in progress, then cancel those that are left."""
        for connection in tuple(self._state.connections):
            connection.shutdown()
        running = set(self._state.tasks)
        if running:
            _done, late = await asyncio.wait(running, timeout=timeout_s)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _protocol(self) -> GatewayProtocol:
        return GatewayProtocol(config=self._config, server_state=self._state, app_state={})

    async def _update_date(self) -> None:
        while True:
            date = formatdate(usegmt=True).encode()
            self._state.default_headers = [(b"date", date)]
            await asyncio.sleep(1)

    async def _accept(self, listening: socket.socket, context: ssl.SSLContext) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, _peer = await loop.sock_accept(listening)
            except OSError as error:  # no descriptor left: others will end
                log.warning("cannot accept: %s", error, extra={"event": "accept_failed"})
                await asyncio.sleep(_ACCEPT_PAUSE_S)
                continue
            connection.setblocking(False)  # noqa: FBT003 - the socket module's own signature
            _ = self._start_task(self._start_tls(connection, context))

    async def _start_tls(self, connection: socket.socket, context: ssl.SSLContext) -> None:
        """Recognize TLS by its first byte, and answer plain HTTP with a hint."""
        served = False
        try:
            async with asyncio.timeout(HANDSHAKE_S):
                first = await _first_byte(connection)
                if first == _TLS_HANDSHAKE:
                    await asyncio.get_running_loop().connect_accepted_socket(
                        self._protocol, connection, ssl=context, ssl_handshake_timeout=HANDSHAKE_S
                    )
                    served = True
                elif first is not None:
                    loop = asyncio.get_running_loop()
                    await loop.sock_recv(connection, 2**16)
                    await loop.sock_sendall(connection, broken_request(_PLAIN_ON_TLS))
        except (OSError, TimeoutError) as error:  # SSLError is an OSError
            log.debug("no TLS: %s", error, extra={"event": "tls_handshake_failed"})
        finally:
            if not served:
                connection.close()

    def _start_task(self, work: Any) -> asyncio.Task[None]:
        task: asyncio.Task[None] = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


async def _first_byte(connection: socket.socket) -> int | None:
    """Peek at the first byte; return None when the peer has closed."""
    loop = asyncio.get_running_loop()
    readable = asyncio.Event()
    loop.add_reader(connection, readable.set)
    try:
        await readable.wait()
    finally:
        loop.remove_reader(connection)
    with contextlib.suppress(BlockingIOError):
        peeked = connection.recv(1, socket.MSG_PEEK)
        return peeked[0] if peeked else None
    return None
