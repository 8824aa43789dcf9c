"""Mocks of gRPC. Its libraries take a sixth of a second: they are imported with a server."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mocks.grpc.server import GrpcServer
    from mocks.plane.setup import PlaneSetup


async def start_server(
    setup: PlaneSetup,
    names: Callable[[], Sequence[str]],
    *,
    host: str,
    port: int,
    shares_port: bool = True,
    pair: tuple[bytes, bytes] | None = None,
) -> GrpcServer:
    """Return a server that serves the spaces `names`; raise PortTaken."""
    from mocks.grpc.server import GrpcServer

    server = GrpcServer(setup, names, host=host, port=port, shares_port=shares_port, pair=pair)
    await server.start()
    return server
