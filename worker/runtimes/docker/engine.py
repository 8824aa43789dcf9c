"""Calls to the Docker engine: the SDK on threads of its own, each call with a deadline.

A call that reaches no engine is repeated for 30 s, then it raises RuntimeUnavailable. Callers make
their calls safe to repeat: names are deterministic, and existing objects are looked up.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeVar

import docker
import docker.errors
import requests

from worker.domain.runtime import UNAVAILABLE_AFTER_S, RuntimeFailure, RuntimeUnavailable
from worker.runtimes.docker.address import EngineAddress, default_address

T = TypeVar("T")
THREADS: Final = 16
CALL_S: Final = 60
_PAUSE_S: Final = (0.1, 0.2, 0.5, 1.0, 2.0)

APIError = docker.errors.APIError
NotFound = docker.errors.NotFound


class RuntimeRefused(RuntimeFailure):
    """The engine answered with an error of its own; the message is the engine's."""

    reason = "runtime_unavailable"


class _NoEngine(Exception):
    """Not reachable, or no answer within the deadline: worth another try."""


class Engine:
    """The engine at an address; by default the one that the environment names."""

    def __init__(
        self,
        address: EngineAddress | None = None,
        *,
        unavailable_after_s: float = UNAVAILABLE_AFTER_S,
    ) -> None:
        self.address = address or default_address()
        self._unavailable_after_s = unavailable_after_s
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="docker")
        self._connected: docker.APIClient | None = None
        self._lock = threading.Lock()

    async def call(
        self,
        use: Callable[[docker.APIClient], T],
        *,
        deadline_s: float = CALL_S,
        patient: bool = True,
    ) -> T:
        """Raises APIError, NotFound, and RuntimeUnavailable (at once unless `patient`)."""
        now = asyncio.get_running_loop().time
        give_up = now() + (self._unavailable_after_s if patient else 0)
        tries = 0
        while True:
            try:
                return await self._once(use, deadline_s)
            except _NoEngine as error:
                if now() >= give_up:
                    raise RuntimeUnavailable(
                        f"the container runtime does not answer: {error}"
                    ) from error
            await asyncio.sleep(_PAUSE_S[min(tries, len(_PAUSE_S) - 1)])
            tries += 1

    async def _once(self, use: Callable[[docker.APIClient], T], deadline_s: float) -> T:
        running = asyncio.get_running_loop().run_in_executor(self._threads, self._run, use)
        try:
            async with asyncio.timeout(
                deadline_s
            ):  # wait_for of Python 3.11 may eat a cancellation
                return await running
        except TimeoutError:
            raise _NoEngine(f"no answer within {deadline_s:g} s") from None

    def _run(self, use: Callable[[docker.APIClient], T]) -> T:
        try:
            return use(self._client())
        except (docker.errors.APIError, RuntimeFailure):
            raise
        except docker.errors.DockerException as error:  # of the version question, the first request
            raise _NoEngine("no connection") from error
        except requests.exceptions.RequestException as error:
            raise _NoEngine(type(error).__name__) from error

    def _client(self) -> docker.APIClient:
        with self._lock:
            if self._connected is None:
                self._connected = docker.APIClient(
                    **self.address.sdk_options(),
                    version="auto",
                    timeout=CALL_S,
                    max_pool_size=THREADS,
                )
            return self._connected

    async def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
        if self._connected:
            self._connected.close()


def explanation(error: docker.errors.APIError) -> str:
    """The engine's own words."""
    return str(error.explanation or error)


def inspected(unit_id: str) -> Callable[[docker.APIClient], dict[str, Any]]:
    return lambda client: client.inspect_container(unit_id)
