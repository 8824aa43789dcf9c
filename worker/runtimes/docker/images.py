"""Images: present, pulled when the policy says so, or missing.

A pull goes over the engine's socket, with a deadline that also ends it in the engine. Credentials
are sent with this one request, and the engine does not store them.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode

from kernel.pull_credentials import PullCredentials, no_credentials
from kernel.redaction import Redactor
from worker.domain.runtime import ImageMissing
from worker.runtimes.docker import engine_http
from worker.runtimes.docker.engine import ContainerEngine, EngineAddress, NotFound
from worker.runtimes.docker.engine_http import ConnectionBroken

_TRIES: Final = 3
CREDENTIALS_S: Final = 10.0
_READERS: Final = 2
PULL_S: Final = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageConfiguration:
    """What an image says of its containers. `variables`: the names of those that it sets."""

    id: str = ""
    working_directory: str = ""
    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()


def _inspect(client: Any, image: str) -> ImageConfiguration:
    """Return the configuration of an image. Raises NotFound."""
    found = client.inspect_image(image)
    config = found.get("Config") or {}
    return ImageConfiguration(
        id=str(found["Id"]),
        working_directory=str(config.get("WorkingDir") or ""),
        entrypoint=tuple(config.get("Entrypoint") or ()),
        command=tuple(config.get("Cmd") or ()),
        variables=tuple(each.partition("=")[0] for each in config.get("Env") or ()),
    )


class Images:
    """`policy`: IfNotPresent, Always or Never; `credentials`: those of an image's registry."""

    def __init__(
        self,
        engine: ContainerEngine,
        policy: str,
        credentials: Callable[[str], PullCredentials | None] = no_credentials,
    ) -> None:
        self._engine = engine
        self._policy = policy
        self._credentials = credentials
        # The source of credentials may hang; it then blocks only these threads.
        self._readers = ThreadPoolExecutor(_READERS, thread_name_prefix="pull-credentials")
        self._known: dict[str, ImageConfiguration] = {}  # as last inspected

    def close(self) -> None:
        self._readers.shutdown(wait=False, cancel_futures=True)

    async def ensure(self, image: str, *, pulling: Callable[[str], Awaitable[None]]) -> None:
        """Make the image present. Raises ImageMissing."""
        if not image:
            raise ImageMissing(
                "no image is declared, and none belongs to the step's file or commands"
            )
        if self._policy != "Always" and await self.is_present(image):
            return
        if self._policy == "Never":
            raise ImageMissing(f"image {image} is not present, and STEP_IMAGE_PULL_POLICY is Never")
        await pulling(image)
        await self._pull(image)
        await self.is_present(image)

    async def is_present(self, image: str) -> bool:
        try:
            self._known[image] = await self._engine.call(lambda client: _inspect(client, image))
        except NotFound:
            self._known.pop(image, None)
            return False
        return True

    async def configuration(self, image: str) -> ImageConfiguration:
        """Return the configuration of the image, as last inspected; empty if it is not there."""
        if image not in self._known:
            await self.is_present(image)
        return self.last_configuration(image)

    def last_configuration(self, image: str) -> ImageConfiguration:
        """Return the image as last inspected, without asking the engine."""
        return self._known.get(image, ImageConfiguration())

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
            raise ImageMissing(f"image {image} could not be pulled: {problem}")

    async def _credentials_of(self, image: str) -> PullCredentials | None:
        """Return the credentials. Raises ImageMissing if they cannot be read in time."""
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


async def pull(
    address: EngineAddress,
    image: str,
    credentials: PullCredentials | None,
    *,
    within_s: float = PULL_S,
) -> str:
    """Pull an image; return why it failed, empty on success. Raises OSError, ConnectionBroken."""
    name, tag = name_and_tag(image)
    path = f"/images/create?{urlencode({'fromImage': name, 'tag': tag})}"
    headers = {"X-Registry-Auth": encode_credentials(credentials)} if credentials else {}
    try:
        async with asyncio.timeout(within_s):
            problem = await _problem(engine_http.body(address, "POST", path, headers=headers))
    except TimeoutError:
        return f"not within {within_s:g} s"
    except engine_http.EngineRefused as error:
        problem = error.message or str(error)
    if credentials is None:
        return problem
    both = f"{credentials.username}:{credentials.secret}"
    return Redactor([credentials.secret, both, encode_credentials(credentials)]).mask(problem)


async def _problem(answer: AsyncGenerator[bytes]) -> str:
    """Return the last error in the progress, which is one JSON object per line."""
    rest, problem = b"", ""
    async for data in answer:
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            problem = _error_in(line) or problem
    return _error_in(rest) or problem


def _error_in(line: bytes) -> str:
    """Return the error of a line; a line that is not a JSON object is an error itself."""
    if not line.strip():
        return ""
    try:
        return str(json.loads(line).get("error", ""))
    except (ValueError, AttributeError):
        return line.decode("utf-8", "replace").strip()


def encode_credentials(credentials: PullCredentials) -> str:
    if credentials.username:
        said = {"username": credentials.username, "password": credentials.secret}
    else:
        said = {"registrytoken": credentials.secret}
    words = json.dumps(said | {"serveraddress": credentials.host})
    return base64.urlsafe_b64encode(words.encode()).decode()


def name_and_tag(image: str) -> tuple[str, str]:
    """Without tag or digest `latest` is meant; the engine itself would pull every tag."""
    if "@" in image:
        return image, ""
    head, colon, tail = image.rpartition(":")
    return (head, tail) if colon and "/" not in tail else (image, "latest")
