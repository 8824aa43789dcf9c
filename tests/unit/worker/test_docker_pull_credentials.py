"""Where the credentials of a pull come from may hang."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from kernel.pull_credentials import PullCredentials
from worker.domain.runtime import ImageMissing
from worker.runtimes.docker import images
from worker.runtimes.docker.engine import NotFound


class NoImages:
    """An engine that has no image; nothing is pulled in these tests."""

    async def call(self, use: Any) -> Any:
        raise NotFound("no such image")


@pytest.fixture
def released() -> Iterator[threading.Event]:
    event = threading.Event()
    yield event
    event.set()


async def pulling(_image: str) -> None:
    pass


async def test_a_source_that_hangs_fails_the_pull_and_takes_no_thread_of_others(
    monkeypatch: pytest.MonkeyPatch, released: threading.Event
) -> None:
    """Invariants 5 and 37: many pulls at once, and the loop's own threads stay free."""
    monkeypatch.setattr(images, "CREDENTIALS_S", 0.2)

    def hang(_image: str) -> PullCredentials | None:
        released.wait(60)
        return None

    found = images.Images(NoImages(), "IfNotPresent", hang)  # type: ignore[arg-type]
    pulls = [asyncio.create_task(found.ensure("x:1", pulling=pulling)) for _ in range(40)]
    await asyncio.sleep(0)
    async with asyncio.timeout(30):
        assert await asyncio.to_thread(lambda: "free") == "free"
        ended = await asyncio.gather(*pulls, return_exceptions=True)

    assert {type(each) for each in ended} == {ImageMissing}
    assert "could not be read within 0.2 s" in str(ended[0])
    assert sum(thread.name.startswith("pull-cred") for thread in threading.enumerate()) <= 2
    found.close()
