"""A supervisor between a fake control plane and a fake runtime."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.support import steps
from tests.support.fake_control_plane import (
    FakeControlPlane,
    FakeJob,
    OrderlyFakeControlPlane,
    Store,
)
from tests.support.fake_runtime import FakeRuntime
from worker.domain.runtime import Runtime
from worker.supervisor.attempt import SupervisorOptions
from worker.supervisor.supervisor import Supervisor


@dataclass
class Stage:
    """One store, one runtime; supervisors come and go. `last`: the youngest's control plane."""

    state_dir: Path
    store: Store = field(default_factory=Store)
    runtime: Any = field(default_factory=FakeRuntime)
    run_id: str = field(default_factory=lambda: f"run-{secrets.token_hex(6)}")
    control_plane: type[FakeControlPlane] = FakeControlPlane
    last: FakeControlPlane = field(init=False)

    async def add(
        self, *words: str, node_id: str = "step", current_attempt: int = 0, **changes: Any
    ) -> FakeJob:
        node = {"command": list(words)} | changes.pop("node", {})
        claim = steps.claim(self.run_id, node_id, node=node, **changes)
        return await self.store.add(claim, attempt=current_attempt)

    async def until_removed(self) -> None:
        """No unit is left."""
        async with asyncio.timeout(5):
            while self.runtime.units:  # noqa: ASYNC110 - the fake tells nobody
                await asyncio.sleep(0.01)

    @asynccontextmanager
    async def supervisor(self, **changes: Any) -> AsyncGenerator[Supervisor]:
        """Works inside the block; at its end it is gone as if killed: nothing is completed."""
        self.last = self.control_plane(self.store)
        settings: dict[str, Any] = {"owner": steps.owner(), "state_dir": self.state_dir} | changes
        options = SupervisorOptions(**settings)
        runtime: Runtime = self.runtime
        made = Supervisor(self.last, runtime, options)
        running = asyncio.create_task(made.run())
        try:
            yield made
        finally:
            made.stop()
            await running


@pytest.fixture(params=[FakeControlPlane, OrderlyFakeControlPlane])
async def stage(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncGenerator[Stage]:
    made = Stage(state_dir=tmp_path, control_plane=request.param)
    yield made
    await made.runtime.close()
