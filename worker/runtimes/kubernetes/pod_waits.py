"""Waiting for a state of a pod, and for the answer of its node."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from worker.domain.runtime import RuntimeFailure, RuntimeUnavailable, Unit, UnitLost
from worker.runtimes.kubernetes import keeper, reasons
from worker.runtimes.kubernetes.client import ClusterError
from worker.runtimes.kubernetes.objects import Pod
from worker.runtimes.kubernetes.pod_watch import PodWatch

T = TypeVar("T")
_PAUSE_S: Final = 0.2


class PodWaits:
    """Waits for units; a node that gives no answer for `unavailable_after_s` is unavailable."""

    def __init__(self, pods: PodWatch, unavailable_after_s: float) -> None:
        self._pods = pods
        self._unavailable_after_s = unavailable_after_s

    async def until(self, unit: Unit, reached: Callable[[Pod], bool]) -> Pod:
        """Return the pod once `reached` is true for it. Raises UnitLost, PodFailed."""

        def over(pod: Pod) -> bool:
            return reached(pod) or reasons.lost_problem(pod) is not None

        pod = await self._pods.until(unit.name, over)
        if pod is None:
            raise self.loss(unit)
        if not reached(pod) and (lost := reasons.lost_problem(pod)):
            raise reasons.PodFailed(lost)
        return pod

    def loss(self, unit: Unit) -> RuntimeFailure:
        return UnitLost(reasons.deleted_problem(self._pods.last_seen(unit.name)).sentence)

    async def repeat(
        self, unit: Unit, work: Callable[[], Awaitable[T]], *, limit_s: float = 0.0
    ) -> T:
        """Do what needs an answer of the unit's node until there is one.

        `limit_s`: what one try may take, if it moves files; its first failure counts as the
        begin. Raises RuntimeUnavailable if there is no answer in time, UnitLost if the unit is
        gone.
        """
        now = asyncio.get_running_loop().time
        give_up = now() + self._unavailable_after_s
        moves_files = bool(limit_s)
        while True:
            limit = asyncio.timeout_at(max(give_up, now() + limit_s))
            try:
                async with limit:
                    return await work()
            except (ClusterError, keeper.ExecFailed, TimeoutError) as error:
                if await self._pods.read(unit.name) is None:
                    raise self.loss(unit) from error
                if moves_files:
                    give_up, moves_files = now() + self._unavailable_after_s, False
                if limit.expired() or now() >= give_up:
                    words = str(error) or "no end in time"
                    message = f"the node of {unit.name} does not answer: {words}"
                    raise RuntimeUnavailable(message) from error
            await asyncio.sleep(_PAUSE_S)
