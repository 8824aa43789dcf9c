"""Partita's data plane in the mock benchmark: the real plane, engine, state, journal and metrics.

`uvicorn bench.mock_plane:application` serves suites that are made here, as the environment says:
FORM (one of `_SUITES`), OPERATIONS, SUITES, and REDIS, its address, where state and journal are
there. `python -m bench.mock_plane PORT` serves gRPC.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from apps.observability import metrics
from bench import mock_api
from bench.mock_api import SURFACE, Request
from kernel.garbage import collect_seldom
from mocks.engine.engine import Engine
from mocks.engine.tables import compile_space
from mocks.journal.memory import MemoryJournal
from mocks.journal.redis import RedisJournal
from mocks.model.ports import Proxy, ScriptRunner, SpaceContent
from mocks.model.spaces import SpaceName
from mocks.plane.asgi import MockPlane
from mocks.plane.setup import PlaneSetup
from mocks.redis_link import RedisLink
from mocks.spaces import Spaces, SpacesSetup
from mocks.state.memory import MemoryState
from mocks.state.redis import RedisState, SharedState
from surfaces.hydration import surfaces_of
from surfaces.model import Surface

_SUITES: Final[Mapping[str, Callable[[int], dict[str, bytes]]]] = {
    "plain": mock_api.plain_suite,
    "stateful": mock_api.stateful_suite,
    "checked": mock_api.checked_suite,
    "unchecked": mock_api.unchecked_suite,
}
_REQUESTS: Final[Mapping[str, Callable[..., list[Request]]]] = {
    "plain": mock_api.plain_requests,
    "stateful": mock_api.stateful_requests,
    "checked": mock_api.checked_requests,
    "unchecked": mock_api.checked_requests,
}
_SEEN: Final = 20  # suites that get requests: as many different ones however many there are


def settings(form: str, operations: int, suites: int) -> dict[str, str]:
    """Return the environment of a server."""
    return {"FORM": form, "OPERATIONS": str(operations), "SUITES": str(suites)}


def requests(form: str, operations: int, suites: int) -> list[Request]:
    """Return requests to every operation, each to another one of the suites."""
    made = _REQUESTS[form]
    found: list[Request] = []
    for number in range(len(made(operations))):
        suite = f"suite{number % min(suites, _SEEN)}"
        found.append(made(operations, f"/mocks/rest/{suite}/{SURFACE}")[number])
    return found


class _Source:
    """A source of suites that differ in their id alone; those without requests share surfaces."""

    def __init__(self, files: Mapping[str, bytes], suites: int) -> None:
        self._files = files
        self._ids = {f"suite{number}" for number in range(suites)}
        self._seen = {f"suite{number}" for number in range(_SEEN)}
        self._shared = self._surfaces("suite")

    def load(self, name: SpaceName) -> SpaceContent | None:
        suite_id = name.suite_id
        if suite_id not in self._ids:
            return None
        surfaces = self._surfaces(suite_id) if suite_id in self._seen else self._shared
        return SpaceContent(
            suite_id=suite_id, title=suite_id, repository="", generation="1", surfaces=surfaces,
            files=self._files,
        )  # fmt: skip

    def _surfaces(self, suite_id: str) -> tuple[Surface, ...]:
        surfaces, warnings = surfaces_of(self._files, suite_id=suite_id, base_url="")
        assert not warnings, warnings[:3]
        return surfaces

    def generations(self, names: Sequence[SpaceName]) -> Mapping[SpaceName, str]:
        return {name: "1" for name in names if name.suite_id in self._ids}


class _Unused:
    """Scripts and proxies, which no mock of the benchmark has."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(name)


def _setup(files: Mapping[str, bytes], suites: int) -> PlaneSetup:
    source = _Source(files, suites)
    own = MemoryState()
    link = RedisLink(f"redis://{address}/0") if (address := os.environ.get("REDIS")) else None
    state = SharedState(RedisState(link), own) if link else own
    spaces = Spaces(SpacesSetup(source_of=lambda _kind: source, compile=compile_space, state=state))
    unused: Any = _Unused()
    scripts: ScriptRunner = unused
    proxy: Proxy = unused
    return PlaneSetup(
        spaces=spaces,
        engine=Engine(state=state, scripts=scripts, proxy=proxy),
        journal=RedisJournal(link, str) if link else MemoryJournal(),
        meter=metrics.mock_calls.recorder,
        site_hosts=frozenset({"partita.example"}),
        own_cookies=frozenset({"partita_session", "csrftoken"}),
    )


class _Application:
    """The plane, with the thread that looks for changes, as a server starts it."""

    def __init__(self, setup: PlaneSetup, suites: int) -> None:
        self._plane, self._spaces, self._suites = MockPlane(setup), setup.spaces, suites
        self.answer_early = self._plane.answer_early

    async def __call__(
        self,
        scope: dict[str, Any],
        receive: Callable[[], Awaitable[dict[str, Any]]],
        send: Callable[[dict[str, Any]], Awaitable[None]],
    ) -> None:
        if scope["type"] == "http":
            await self._plane(scope, receive, send)
        elif scope["type"] == "lifespan":
            await self._live(receive, send)

    async def _live(
        self,
        receive: Callable[[], Awaitable[dict[str, Any]]],
        send: Callable[[dict[str, Any]], Awaitable[None]],
    ) -> None:
        await receive()
        self._spaces.start()
        for number in range(self._suites):  # all are there and in use
            await self._spaces.load(f"suite{number}")
        collect_seldom()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        self._spaces.stop()
        await send({"type": "lifespan.shutdown.complete"})


async def _serve_grpc(port: int) -> None:
    from mocks.grpc.server import GrpcServer

    setup = _setup(mock_api.grpc_suite(), 1)
    setup.spaces.start()
    server = GrpcServer(setup, lambda: ["suite0"], host="127.0.0.1", port=port)
    await server.start()
    collect_seldom()
    await asyncio.Event().wait()
    await server.stop()


def application_of(form: str, *, operations: int, suites: int) -> _Application:
    return _Application(_setup(_SUITES[form](operations), suites), suites)


def __getattr__(name: str) -> _Application:
    """Make the application when uvicorn asks for it: requests() needs none."""
    if name != "application":
        raise AttributeError(name)
    numbers = {each: int(os.environ[each.upper()]) for each in ("operations", "suites")}
    return application_of(os.environ["FORM"], **numbers)


if __name__ == "__main__":
    asyncio.run(_serve_grpc(int(sys.argv[1])))
