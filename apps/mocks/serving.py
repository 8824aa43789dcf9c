"""What this process serves mocks with, for those that look into it."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Final, Protocol, TypeVar

from asgiref.sync import async_to_sync

from apps.mocks.domain.engine import Engine
from apps.mocks.domain.ports import Journal, StateStore
from apps.mocks.domain.spaces import SpaceName
from apps.mocks.domain.tables import CompiledSpace
from kernel.registry import Registry

T = TypeVar("T")


class Serving(Protocol):
    """`engine` answers calls; `load` returns a compiled space, None if there is none."""

    engine: Engine
    state: StateStore
    journal: Journal

    async def load(self, name: SpaceName) -> CompiledSpace | None: ...


servings: Final[Registry[Callable[[], Serving]]] = Registry("way to serve mocks")


def serving() -> Serving:
    return servings["process"]()


def wait_for(work: Callable[[Serving], Coroutine[Any, Any, T]]) -> T:
    """Return what `work` returns; for threads, which have no event loop."""

    async def done() -> T:
        return await work(serving())

    return async_to_sync(done)()
