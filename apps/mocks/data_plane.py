"""The data plane of this process, and the application that has it in front."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import lru_cache
from typing import Any

from apps.mocks import conf
from apps.mocks.components import mock_parts
from apps.observability.api import metrics
from apps.operations.api import is_draining
from mocks.engine.nearest import nearest
from mocks.plane.asgi import PREFIXES, MockPlane
from mocks.plane.channel_wires import ChannelsApp
from mocks.plane.channels import PREFIX as CHANNELS
from mocks.plane.channels import Channels
from mocks.plane.setup import PlaneSetup

Application = Callable[[Any, Any, Any], Awaitable[None]]


@lru_cache(maxsize=1)
def plane() -> MockPlane:
    """Return the data plane of this process."""
    return MockPlane(plane_setup())


def plane_setup() -> PlaneSetup:
    """Return what the data plane, channels and the gRPC server of this process are made of."""
    made = mock_parts()
    return PlaneSetup(
        spaces=made.spaces,
        engine=made.engine,
        journal=made.journal,
        meter=metrics.mock_calls.recorder,
        is_draining=is_draining,
        secret=conf.shared_secret(),
        site_hosts=conf.site_hosts(),
        own_cookies=conf.own_cookies(),
        strict_transport_security=conf.strict_transport_security(),
        nearest=nearest,
    )


def mocks_in_front(application: Application) -> Application:
    """Return an application that answers mocks itself and leaves the rest to another one."""
    serve = plane()
    subscribe = ChannelsApp(Channels(plane_setup()))

    async def with_mocks(scope: Any, receive: Any, send: Any) -> None:
        path = scope.get("path", "")
        if not path.startswith(PREFIXES):
            await application(scope, receive, send)
        elif path.startswith(CHANNELS):
            await subscribe(scope, receive, send)
        elif scope["type"] == "http":
            await serve(scope, receive, send)
        else:
            await application(scope, receive, send)

    with_mocks.answer_early = serve.answer_early  # type: ignore[attr-defined]  # see kernel.prepared_answers
    return with_mocks
