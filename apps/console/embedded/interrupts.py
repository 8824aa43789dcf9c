"""Ctrl-C and SIGTERM: the first drains, the second ends the process at once."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from types import FrameType

SIGNALS = (signal.SIGTERM, signal.SIGINT)


def announce(say: Callable[[str], None], *, at_once: Callable[[], None]) -> None:
    """`say` what a signal does before the server does it; call once the server has started.

    A second signal calls `at_once` and ends the process as kill -9 would: steps that run are left
    to the next start, which the store and the runtimes are made for.
    """
    loop = asyncio.get_running_loop()
    drains = {number: signal.getsignal(number) for number in SIGNALS}
    came: list[int] = []

    def on_signal(number: int, frame: FrameType | None) -> None:
        came.append(number)
        if len(came) > 1:
            at_once()
            os._exit(128 + number)
        loop.call_soon_threadsafe(say, "stopping: streams end, then the runner (again: at once)")
        drain = drains[signal.Signals(number)]
        assert callable(drain)
        drain(number, frame)

    for number in SIGNALS:
        signal.signal(number, on_signal)
