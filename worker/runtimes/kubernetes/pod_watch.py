"""The pods of an installation as one watch reports them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Final

import msgspec

from kernel.background import keep_running, one_cycle, report_error
from worker.domain.runtime import RuntimeUnavailable
from worker.runtimes.kubernetes.client import ClusterClient, Gone, RequestDenied, StreamBroken
from worker.runtimes.kubernetes.objects import AnyObject, Pod, PodList, Status, WatchEvent

log = logging.getLogger("partita.workers")
WATCH_S: Final = 60
_LATE_S: Final = 10.0
_PAUSE_S: Final = 0.3
READ_EVERY_S: Final = 10.0  # a pod that is waited for is read again, in case the watch is silent
READ_ALONE: Final = 5  # where more pods are waited for, one list reads them all
_GONE: Final = 410
_REMEMBERED: Final = 2_000


class PodWatch:
    """Keeps the newest state of each pod and wakes whoever waits for it.

    The watch only saves waiting: pods that are waited for are also read every READ_EVERY_S.
    """

    def __init__(self, client: ClusterClient, selector: str) -> None:
        self._client = client
        self._selector = selector
        self._pods: dict[str, Pod] = {}
        self._last: dict[str, Pod] = {}  # deleted pods as they were, for the reason of their end
        self._waiting: defaultdict[str, set[asyncio.Event]] = defaultdict(set)
        self._task: asyncio.Task[None] | None = None
        self._reading: asyncio.Task[None] | None = None  # all pods
        self._read_at = 0.0

    def start(self) -> None:
        """Begin to watch, unless that has begun."""
        if self._task is None:
            following = keep_running("pods", self._follow, longest_pause_s=2.0)
            self._task = asyncio.create_task(following, name="watch pods")

    async def close(self) -> None:
        tasks = [task for task in (self._task, self._reading) if task]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def get(self, name: str) -> Pod | None:
        return self._pods.get(name)

    def last_seen(self, name: str) -> Pod | None:
        """Return a deleted pod as it was last seen."""
        return self._last.get(name)

    def note(self, pod: Pod) -> None:
        """Take over what a request returned, unless the watch was faster."""
        before = self._pods.get(pod.name)
        if before is None or _version(before) <= _version(pod):
            self._set(pod)

    def forget(self, name: str) -> None:
        """Note that a request found no such pod."""
        if pod := self._pods.pop(name, None):
            self._last[name] = pod
            while len(self._last) > _REMEMBERED:
                del self._last[next(iter(self._last))]
        self._wake(name)

    def _set(self, pod: Pod) -> None:
        self._pods[pod.name] = pod
        self._wake(pod.name)

    def _wake(self, name: str) -> None:
        for event in self._waiting.get(name, ()):
            event.set()

    async def until(self, name: str, reached: Callable[[Pod], bool]) -> Pod | None:
        """Return the pod once `reached` returns True for it; None when it is gone."""
        self.start()
        event = asyncio.Event()
        self._waiting[name].add(event)
        try:
            pod = self._pods.get(name) or await self.read(name)
            while pod is not None and not reached(pod):
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(READ_EVERY_S):
                        await event.wait()
                if not event.is_set():
                    await self.read_again(name)
                event.clear()
                pod = self._pods.get(name)
            return pod
        finally:
            self._waiting[name].discard(event)
            if not self._waiting[name]:
                del self._waiting[name]

    async def read_again(self, name: str) -> None:
        """Read the pod; where many are waited for, all of them, but not for each one.

        Raises RuntimeUnavailable.
        """
        if len(self._waiting) <= READ_ALONE:
            await self.read(name)
            return
        if self._reading is None or self._reading.done():
            if time.monotonic() - self._read_at < READ_EVERY_S / 2:
                return
            self._read_at = time.monotonic()
            self._reading = asyncio.create_task(self._read_all(), name="read pods")
        await asyncio.shield(self._reading)

    async def _read_all(self) -> None:
        """Take over what has changed unnoticed; a pod that came meanwhile is not in the list."""
        before = dict(self._pods)
        try:
            pods, _ = await list_pods(self._client, self._selector)
        except Gone:
            return  # the pages of the list took too long: the next one may not
        for pod in pods:
            self.note(pod)
        for name in before.keys() - {pod.name for pod in pods}:
            if self._pods.get(name) is before[name]:
                self.forget(name)

    async def read(self, name: str) -> Pod | None:
        """Read the pod; return None if it is gone. Raises RuntimeUnavailable."""
        try:
            pod = await self._client.get("pods", name, Pod)
        except Gone:
            self.forget(name)
            return None
        self.note(pod)
        return self._pods.get(name, pod)

    async def _follow(self) -> None:
        """List, then watch from there, again and again."""
        version = ""
        while True:
            with one_cycle():
                try:
                    version = version or await self._list()
                    version = await self._watch(version)
                except Gone:
                    version = ""  # events are lost: list again
                except (StreamBroken, RuntimeUnavailable, RequestDenied) as error:
                    log.warning("the watch of pods is interrupted: %s", error)
                    report_error(optional=True)
                    await asyncio.sleep(_PAUSE_S)

    async def _list(self) -> str:
        known = set(self._pods)  # who comes meanwhile may not be in the list
        pods, version = await list_pods(self._client, self._selector)
        for name in known - {pod.name for pod in pods}:
            self.forget(name)
        for pod in pods:
            self._set(pod)
        return version

    async def _watch(self, version: str) -> str:
        """Apply events until the server ends the watch; return the version to go on from."""
        query = {
            "labelSelector": self._selector,
            "watch": "true",
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(WATCH_S),
            "resourceVersion": version,
        }
        lines = self._client.watch_lines("pods", query, silence_s=WATCH_S + _LATE_S)
        async with contextlib.aclosing(lines):
            try:
                async for line in lines:
                    version = self._apply(line) or version
            except StreamBroken as error:
                log.info("the watch of pods broke: %s", error)
                await asyncio.sleep(_PAUSE_S)
        return version

    def _apply(self, line: bytes) -> str:
        """Apply an event; return its version. Raises Gone."""
        event = msgspec.json.decode(line, type=WatchEvent)
        if event.type == "ERROR":
            status = msgspec.json.decode(event.object, type=Status)
            if status.code == _GONE:
                raise Gone(status.message)
            raise StreamBroken(status.message)
        if event.type == "BOOKMARK":
            return msgspec.json.decode(event.object, type=AnyObject).metadata.resource_version
        pod = msgspec.json.decode(event.object, type=Pod)
        known = self._pods.get(pod.name)
        if known and _version(pod) < _version(known):  # of an earlier pod with this name, or older
            return pod.metadata.resource_version
        if event.type == "DELETED":
            self._pods[pod.name] = pod
            self.forget(pod.name)
        else:
            self._set(pod)
        return pod.metadata.resource_version


def _version(pod: Pod) -> int:
    """Return the version as a number; Kubernetes 1.35 promises that it is one."""
    text = pod.metadata.resource_version
    return int(text) if text.isdecimal() else 0


async def list_pods(client: ClusterClient, selector: str) -> tuple[list[Pod], str]:
    """Return all pods with these labels, and the version of the list."""
    pods: list[Pod] = []
    version = ""
    async for page in client.pages("pods", PodList, selector):
        pods += page.items
        version = version or page.metadata.resource_version
    return pods, version
