"""Images: present, pulled when the policy says so, or missing."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from worker.domain.runtime import ImageMissing, PullCredentials, no_credentials
from worker.runtimes.docker.engine import Engine, NotFound
from worker.runtimes.docker.engine_http import ConnectionBroken
from worker.runtimes.docker.pulling import pull

_TRIES: Final = 3
CREDENTIALS_S: Final = 10.0
_READERS: Final = 2


class Images:
    """`policy`: IfNotPresent, Always or Never; `credentials`: those of an image's registry."""

    def __init__(
        self,
        engine: Engine,
        policy: str,
        credentials: Callable[[str], PullCredentials | None] = no_credentials,
    ) -> None:
        self._engine = engine
        self._policy = policy
        self._credentials = credentials
        # Their source may hang: then it takes these threads, and none that others need.
        self._readers = ThreadPoolExecutor(_READERS, thread_name_prefix="pull-credentials")
        self._users: dict[str, str] = {}

    def close(self) -> None:
        self._readers.shutdown(wait=False, cancel_futures=True)

    async def ensure(self, image: str, *, pulling: Callable[[str], Awaitable[None]]) -> None:
        """Raises ImageMissing."""
        if not image:
            raise ImageMissing(
                "no image is declared, and none belongs to the step's file or commands"
            )
        if self._policy != "Always" and await self.find(image):
            return
        if self._policy == "Never":
            raise ImageMissing(f"image {image} is not present, and STEP_IMAGE_PULL_POLICY is Never")
        await pulling(image)
        await self._pull(image)

    async def find(self, image: str) -> dict[str, Any] | None:
        try:
            found = await self._engine.call(_inspected(image))
        except NotFound:
            return None
        self._users[image] = found.get("Config", {}).get("User", "")
        return found

    async def runs_as_root(self, image: str) -> bool:
        """As it was when the image was last looked at: before each start."""
        if image not in self._users:
            await self.find(image)
        return self._users.get(image, "").split(":")[0] in ("", "0", "root")

    async def _pull(self, image: str) -> None:
        problem, credentials = "", await self._credentials_of(image)
        for _ in range(_TRIES):
            try:
                problem = await pull(self._engine.address, image, credentials)
                break
            except (OSError, ConnectionBroken):
                problem = "the connection to the container runtime broke"
                await self._engine.call(lambda client: client.ping())  # waits until it is back
        if problem:
            raise ImageMissing(f"image {image} is not present and cannot be pulled: {problem}")

    async def _credentials_of(self, image: str) -> PullCredentials | None:
        """Raises ImageMissing when they cannot be had in time."""
        loop = asyncio.get_running_loop()
        reading = loop.run_in_executor(self._readers, self._credentials, image)
        try:
            async with asyncio.timeout(CREDENTIALS_S):
                return await reading
        except TimeoutError:
            raise ImageMissing(
                f"image {image} is not present, and the credentials of its registry could not be "
                f"read within {CREDENTIALS_S:g} s"
            ) from None


def _inspected(image: str) -> Callable[[Any], dict[str, Any]]:
    return lambda client: dict(client.inspect_image(image))
