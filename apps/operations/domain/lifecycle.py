"""Parts that live as long as the process, and the state of draining before it ends."""

from __future__ import annotations

import threading
from typing import Final

from kernel.registry import Registry


class LifespanPart:
    """Something that starts with the server and stops with it; override what is needed.

    Apps name their classes by path, as `lifespan_parts` in `apps.py`; the server makes one
    instance of each, starts them in the order of names and stops them in reverse.
    """

    async def start(self) -> None:
        """Come up; an error here stops the start of the server."""

    async def drain(self) -> None:
        """SIGTERM came: finish what is under way, in 10 s at most."""

    async def stop(self) -> None:
        """Release everything; called even when `drain` was not."""


lifespan_parts: Final[Registry[type[LifespanPart]]] = Registry("lifespan part")
_draining = threading.Event()


def is_draining() -> bool:
    return _draining.is_set()


def begin_drain() -> None:
    """From now on `/readyz` is 503 and new requests are refused; there is no way back."""
    _draining.set()
