"""An image pulled over the engine's socket: with a deadline that ends it in the engine as well.

Credentials go with this one request and nowhere else; the engine forgets them with it.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncGenerator
from typing import Final
from urllib.parse import urlencode

from kernel.redaction import Redactor
from worker.domain.runtime import PullCredentials
from worker.runtimes.docker import engine_http
from worker.runtimes.docker.address import EngineAddress

PULL_S: Final = 600.0


async def pull(
    address: EngineAddress,
    image: str,
    credentials: PullCredentials | None,
    *,
    within_s: float = PULL_S,
) -> str:
    """Why the image could not be pulled; empty when it was. Raises OSError, ConnectionBroken."""
    name, tag = name_and_tag(image)
    path = f"/images/create?{urlencode({'fromImage': name, 'tag': tag})}"
    headers = {"X-Registry-Auth": encoded(credentials)} if credentials else {}
    try:
        async with asyncio.timeout(within_s):
            problem = await _problem(engine_http.body(address, "POST", path, headers=headers))
    except TimeoutError:
        return f"not within {within_s:g} s"
    except engine_http.EngineRefused as error:
        problem = error.message or str(error)
    return _masked(problem, credentials)


async def _problem(answer: AsyncGenerator[bytes]) -> str:
    """The progress is a JSON object a line; a failure in the middle of it is one as well."""
    rest, problem = b"", ""
    async for data in answer:
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            problem = _error_in(line) or problem
    return _error_in(rest) or problem


def _error_in(line: bytes) -> str:
    """What an engine says that is no JSON object is a failure, in its own words."""
    if not line.strip():
        return ""
    try:
        return str(json.loads(line).get("error", ""))
    except (ValueError, AttributeError):
        return line.decode("utf-8", "replace").strip()


def encoded(credentials: PullCredentials) -> str:
    if credentials.username:
        said = {"username": credentials.username, "password": credentials.secret}
    else:
        said = {"registrytoken": credentials.secret}
    words = json.dumps(said | {"serveraddress": credentials.host})
    return base64.urlsafe_b64encode(words.encode()).decode()


def _masked(problem: str, credentials: PullCredentials | None) -> str:
    if credentials is None:
        return problem
    both = f"{credentials.username}:{credentials.secret}"
    return Redactor([credentials.secret, both, encoded(credentials)]).mask(problem)


def name_and_tag(image: str) -> tuple[str, str]:
    """Without tag or digest `latest` is meant; the engine itself would pull every tag."""
    if "@" in image:
        return image, ""
    head, colon, tail = image.rpartition(":")
    return (head, tail) if colon and "/" not in tail else (image, "latest")
