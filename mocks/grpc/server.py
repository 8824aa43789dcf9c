"""The gRPC server of mocks, beside the HTTP form of the same calls (reference: control-plane 18.7).

server = GrpcServer(setup, names, host="127.0.0.1", port=8092)
await server.start()
await server.stop()
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, Final

import grpc

from mocks.errors import PortTaken
from mocks.grpc.calls import MockHandler
from mocks.grpc.methods import Methods
from mocks.grpc.reflection import ReflectionHandler
from mocks.plane.setup import PlaneSetup

logger: Final = logging.getLogger("partita.mocks")
MAX_MESSAGE: Final = 4 * 2**20
MAX_METADATA: Final = 64 * 2**10
MAX_STREAMS: Final = 256  # of one connection
MAX_CALLS: Final = 1_000
GRACE_S: Final = 5.0
OPTIONS: Final = (
    ("grpc.max_receive_message_length", MAX_MESSAGE),
    ("grpc.max_send_message_length", -1),  # the limits of examples are smaller
    ("grpc.max_metadata_size", MAX_METADATA),
    ("grpc.max_concurrent_streams", MAX_STREAMS),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
)


class GrpcServer:
    """Listens on the event loop that starts it. With port 0, `port` is the one that was free.

    `shares_port`: web processes of one host listen on the same one. `pair`: key and certificate in
    PEM, for TLS.
    """

    def __init__(
        self,
        setup: PlaneSetup,
        names: Callable[[], Sequence[str]],
        *,
        host: str,
        port: int,
        shares_port: bool = True,
        pair: tuple[bytes, bytes] | None = None,
    ) -> None:
        self._setup = setup
        self._names = names
        self._host = host
        self.port = port
        self._shares_port = shares_port
        self._pair = pair
        self._server: Any = None

    async def start(self) -> None:
        """Listen; raise PortTaken."""
        methods = Methods(self._setup, self._names)
        options = (*OPTIONS, ("grpc.so_reuseport", int(self._shares_port)))
        self._server = grpc.aio.server(options=options, maximum_concurrent_rpcs=MAX_CALLS)
        self._server.add_generic_rpc_handlers(
            (ReflectionHandler(methods), MockHandler(self._setup, methods))
        )
        host = f"[{self._host}]" if ":" in self._host else self._host
        try:
            address = f"{host}:{self.port}"
            if self._pair is None:
                self.port = self._server.add_insecure_port(address)
            else:
                credentials = grpc.ssl_server_credentials([self._pair])
                self.port = self._server.add_secure_port(address, credentials)
        except RuntimeError:
            self._server = None  # it ends itself, which it can do only while this loop runs
            raise PortTaken(f"{host}:{self.port} cannot be listened on") from None
        await self._server.start()
        logger.info("Mocks of gRPC listen on %s:%d", host, self.port)

    async def stop(self) -> None:
        """End; calls under way have a moment to finish."""
        if self._server is not None:
            await self._server.stop(GRACE_S)
            self._server = None
