"""Whether credentials of open streams still hold, asked once for all streams that share one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from functools import partial
from typing import Final

from apps.streams.services.hub import STORE_IS_AWAY, Hub

Recheck = Callable[[], bool]
# A frame comes each 15 s at least (a ping). A stream asks at the first one after RECHECK_S and
# takes an answer that is SHARED_S old: together less than the 30 s that a dead credential has.
RECHECK_S: Final = 10.0
SHARED_S: Final = 4.0


class Rechecks:
    """A thousand streams of one tab farm ask at the same moment: one of them asks the store."""

    def __init__(self) -> None:
        self._answers: dict[Hashable, tuple[float, asyncio.Future[bool]]] = {}

    async def holds(self, hub: Hub, recheck: Recheck) -> bool:
        """True while the store is away: nothing new is sent then, and a later frame asks again."""
        try:
            return await asyncio.shield(self._answer(hub, recheck))
        except STORE_IS_AWAY:
            return True

    def _answer(self, hub: Hub, recheck: Recheck) -> asyncio.Future[bool]:
        now, credential = hub.loop.time(), _credential(recheck)
        self._drop_before(now - SHARED_S)
        _, answer = self._answers.get(credential, (0.0, None))
        if answer is None or answer.get_loop() is not hub.loop:
            answer = hub.spawn(hub.read(recheck))
            self._answers[credential] = (now, answer)
        return answer

    def _drop_before(self, oldest: float) -> None:
        for credential, (asked_at, _) in tuple(self._answers.items()):
            if asked_at >= oldest:
                return
            del self._answers[credential]


def _credential(recheck: Recheck) -> Hashable:
    """Equal for partials of one function with equal arguments: those ask the same question."""
    if isinstance(recheck, partial) and not recheck.keywords:
        return recheck.func, recheck.args
    return recheck


rechecks = Rechecks()
