"""The keeper of each pod, and another one in the place of a keeper that ended too early.

A pod is over once the containers that it began with have ended, and its kubelet then ends what was
added later, too. Such a keeper does not mind that, which leaves it the pod's grace period to take
the files of the step.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Final

import httpx
import msgspec

from worker.runtimes.kubernetes.client import EXEC_S, ClusterClient, RequestDenied
from worker.runtimes.kubernetes.exec_stream import ExecResult
from worker.runtimes.kubernetes.objects import ADDED_KEEPER, KEEPER, Pod
from worker.runtimes.kubernetes.pod_scripts import KEEP_TO_THE_END
from worker.runtimes.kubernetes.pod_spec import Body
from worker.runtimes.kubernetes.pod_watch import PodWatch
from worker.runtimes.kubernetes.reasons import KEEPER_LOST, PodFailed

log = logging.getLogger("partita.workers")
_MOST: Final = 5  # keepers that are added to one pod
_TAKEN: Final = ("image", "imagePullPolicy", "securityContext", "volumeMounts")


class Keepers:
    """Runs programs in the keepers of the pods of one namespace."""

    def __init__(self, client: ClusterClient, pods: PodWatch) -> None:
        self._client = client
        self._pods = pods

    async def run(
        self,
        pod: str,
        argv: Sequence[str],
        *,
        stdin: bytes = b"",
        take: Callable[[bytes], None] | None = None,
        limit_s: float = EXEC_S,
    ) -> ExecResult:
        """Run a program in the keeper. Raises Gone, RequestDenied, StreamBroken, PodFailed."""
        known = self._pods.get(pod)
        container = known.keeper if known else KEEPER
        if container is None:
            raise PodFailed(KEEPER_LOST)
        return await self._client.run(pod, container, argv, stdin=stdin, take=take, limit_s=limit_s)

    async def replace(self, pod: Pod) -> bool:
        """Add a keeper to a pod that runs without one; return False if that cannot be.

        A container that is added cannot mount a part of a volume, as a claim's directories are.
        Raises ClusterError.
        """
        body = await self._client.get("pods", pod.name, dict)
        known = msgspec.convert(body, Pod)
        self._pods.note(known)
        if known.keeper or known.step.terminated:
            return True
        first = next(each for each in body["spec"]["containers"] if each["name"] == KEEPER)
        added = body["spec"].get("ephemeralContainers", [])
        number = sum(each["name"].startswith(ADDED_KEEPER) for each in added) + 1
        if number > _MOST or any("subPath" in each for each in first["volumeMounts"]):
            return False
        another = _another_keeper(first, f"{ADDED_KEEPER}{number}")
        change = {"spec": {"ephemeralContainers": [*added, another]}}
        try:
            await self._client.patch("pods", pod.name, change, part="ephemeralcontainers")
        except RequestDenied as error:
            if error.status != httpx.codes.FORBIDDEN:
                raise
            log.warning("%s has lost its keeper, and gets no other: %s", pod.name, error)
            return False
        log.info("%s has lost its keeper, and gets another", pod.name)
        await self._pods.read(pod.name)
        return True


def _another_keeper(first: Body, name: str) -> Body:
    """Return a container like the first keeper of a pod."""
    taken: Body = {key: first[key] for key in _TAKEN if key in first}
    return {"name": name, "command": ["sh", "-c", KEEP_TO_THE_END], **taken}
