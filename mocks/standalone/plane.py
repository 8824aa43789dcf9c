"""The data plane of `mock serve`: the control plane's own, with its state in memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from mocks.engine.engine import Engine
from mocks.engine.nearest import nearest
from mocks.engine.tables import compile_space
from mocks.errors import PortTaken
from mocks.grpc import start_server
from mocks.journal.entries import NotedCall
from mocks.journal.memory import MemoryJournal
from mocks.model.calls import JournalEntry
from mocks.plane.asgi import MockPlane
from mocks.plane.channel_wires import ChannelsApp
from mocks.plane.channels import PREFIX, Channels
from mocks.plane.http_requests import Receive, Scope, Send
from mocks.plane.setup import PlaneSetup
from mocks.proxies.lazy import LazyProxy
from mocks.scripts.pool import ScriptPool
from mocks.spaces import Spaces, SpacesSetup
from mocks.standalone.inspection_routes import Inspection
from mocks.standalone.overview import PATH as OVERVIEW
from mocks.standalone.overview import Overview
from mocks.standalone.own_routes import OwnRoute
from mocks.standalone.served_suite import ServedSuite
from mocks.state.memory import MemoryState

if TYPE_CHECKING:
    from kernel.addresses import Network
    from mocks.grpc.server import GrpcServer
    from surfaces.operation_rules import ValidateMode

Logged = Callable[[JournalEntry], None]


class StandalonePlane:
    """The ASGI application of one suite. `logged` is told each call as the journal has it."""

    def __init__(
        self,
        served: ServedSuite,
        *,
        logged: Logged | None,
        allowed: Sequence[Network],
        validate: ValidateMode | None = None,
    ) -> None:
        state = MemoryState()
        self._spaces = Spaces(
            SpacesSetup(source_of=lambda _kind: served, compile=compile_space, state=state)
        )
        self._space = str(served.name)
        self._scripts = ScriptPool()
        engine = Engine(
            state=state,
            scripts=self._scripts,
            proxy=LazyProxy(allowed=allowed),
            validate_always=validate,
        )
        journal = MemoryJournal() if logged is None else _ToldJournal(logged)
        self._setup = PlaneSetup(
            spaces=self._spaces,
            engine=engine,
            journal=journal,
            nearest=nearest,
            page_headers=(),  # there are no pages here, and a mock may be one
        )
        self._mocks = MockPlane(self._setup)
        self.answer_early = self._mocks.answer_early
        self._channels = Channels(self._setup)
        self._own: dict[str, OwnRoute] = {
            **Inspection(self._setup, self._space, journal).routes(),
            OVERVIEW: Overview(served),
        }
        self._grpc: GrpcServer | None = None
        self._subscriptions = ChannelsApp(self._channels)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket" or scope["path"].startswith(PREFIX):
            await self._subscriptions(scope, receive, send)
        else:
            await self._own.get(scope["path"], self._mocks)(scope, receive, send)

    def start(self) -> None:
        self._spaces.start()

    async def start_grpc(
        self, host: str, port: int, pair: tuple[bytes, bytes] | None = None
    ) -> int:
        """Serve gRPC as well, with TLS by a pair of key and certificate.

        Return the port, or 0 if it cannot be listened on.
        """
        names = [self._space]
        try:
            self._grpc = await start_server(
                self._setup, lambda: names, host=host, port=port, shares_port=False, pair=pair
            )
        except PortTaken:
            return 0
        return self._grpc.port

    async def stop_grpc(self) -> None:
        if self._grpc is not None:
            await self._grpc.stop()

    def renew(self) -> None:
        """Let the next call see the files as they were read last."""
        self._spaces.forget(self._space)

    def close_channels(self) -> None:
        """End the subscriptions, which have no end of their own."""
        self._channels.close()

    def stop(self) -> None:
        self._spaces.stop()
        self._scripts.close()


class _ToldJournal(MemoryJournal):
    """Tells each call as it is kept."""

    def __init__(self, logged: Logged) -> None:
        super().__init__()
        self._logged = logged

    def add(self, space: str, entry: NotedCall | JournalEntry) -> None:
        super().add(space, entry)
        self._logged(self.entry(entry))
