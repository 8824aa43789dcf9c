"""Images: present, pulled when the policy says so, or missing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

from apps.workers.domain.runtime import ImageMissing
from apps.workers.runtimes.docker.engine import PULL_S, APIError, Engine, NotFound, explanation

_LAST_LINES: Final = 1


class Images:
    """`policy`: IfNotPresent, Always or Never."""

    def __init__(self, engine: Engine, policy: str) -> None:
        self._engine = engine
        self._policy = policy
        self._users: dict[str, str] = {}

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
        name, tag = _name_and_tag(image)

        def pull(client: Any) -> str:
            answers = client.pull(name, tag=tag, stream=True, decode=True)
            return next((answer["error"] for answer in answers if "error" in answer), "")

        try:
            problem = await self._engine.call(pull, deadline_s=PULL_S)
        except APIError as error:
            problem = explanation(error)
        if problem:
            raise ImageMissing(f"image {image} is not present and cannot be pulled: {problem}")


def _inspected(image: str) -> Callable[[Any], dict[str, Any]]:
    return lambda client: dict(client.inspect_image(image))


def _name_and_tag(image: str) -> tuple[str, str | None]:
    """Without tag or digest `latest` is meant; the engine itself would pull every tag."""
    if "@" in image:
        return image, None
    head, colon, tail = image.rpartition(":")
    return (head, tail) if colon and "/" not in tail else (image, "latest")
