"""Mocks in a server: the thread that refreshes spaces, connections and journal until the end.

The listener of gRPC is a part of its own: with several web processes of one host, they share it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from django.core.exceptions import ImproperlyConfigured

from apps.mocks import conf
from apps.mocks.components import mock_parts
from apps.mocks.data_plane import plane_setup
from apps.mocks.selectors import suites_with_protos
from apps.operations.api import LifespanPart
from kernel import clock
from mocks.errors import PortTaken
from mocks.grpc import start_server

if TYPE_CHECKING:
    from mocks.grpc.server import GrpcServer


class MocksPart(LifespanPart):
    async def start(self) -> None:
        made = mock_parts()
        made.loop = asyncio.get_running_loop()
        made.serves_since = clock.now()
        made.scripts.open()
        await asyncio.to_thread(made.proxy.open)
        made.spaces.start()

    async def stop(self) -> None:
        made = mock_parts()
        made.loop = made.serves_since = None
        await made.close()


class GrpcPart(LifespanPart):
    """Mocks by gRPC, where MOCK_GRPC_ADDR says; libraries of gRPC are imported only then."""

    def __init__(self) -> None:
        self._server: GrpcServer | None = None

    async def start(self) -> None:
        address = conf.grpc_address()
        if address is None:
            return
        host, port = address
        try:
            self._server = await start_server(
                plane_setup(), suites_with_protos, host=host, port=port
            )
        except PortTaken as error:
            raise ImproperlyConfigured(f"MOCK_GRPC_ADDR: {error}") from None

    async def stop(self) -> None:
        if self._server is not None:
            await self._server.stop()
            self._server = None
