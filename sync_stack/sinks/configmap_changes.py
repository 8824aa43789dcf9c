"""Kubernetes's watch: hints that a ConfigMap of ours changed (reference: sync-stack 6.1)."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Callable, Collection
from typing import Final

from kernel.background import BackgroundThread
from sync_stack.core.sink import Destination, SinkError
from sync_stack.sinks.configmap_client import Cluster, WatchExpired

_MOST: Final = 1000
OpenCluster = Callable[[], Cluster]
Told = tuple[str, str] | SinkError  # namespace and name (empty: any), or what ended the watch


class _Watch:
    """One namespace, on a thread: from where the last event was, so that nothing is missed."""

    def __init__(self, open_: OpenCluster, namespace: str, told: queue.Queue[Told]) -> None:
        self._open = open_
        self._namespace = namespace
        self._told = told
        self.ended = threading.Event()
        BackgroundThread(
            "configmap-watch",
            self._run,
            ended=self.ended,
            after_failure=lambda: self._tell((namespace, "")),  # what came meanwhile is not known
            title=f"watch-{namespace}",
        ).start()

    def _run(self) -> None:
        try:
            with contextlib.closing(self._open()) as cluster:
                version = cluster.newest(self._namespace)
                while not self.ended.is_set():
                    version = self._watch(cluster, version)
        except SinkError as error:
            self._tell(error)

    def _watch(self, cluster: Cluster, version: str) -> str:
        """Until the server ends it; the version to go on from."""
        try:
            for kind, name, reached in cluster.watch(self._namespace, version):
                if self.ended.is_set():
                    break
                version = reached or version
                if kind != "BOOKMARK":
                    self._tell((self._namespace, name))
        except WatchExpired:
            version = cluster.newest(self._namespace)
            self._tell((self._namespace, ""))
        return version

    def _tell(self, told: Told) -> None:
        while not self.ended.is_set():
            with contextlib.suppress(queue.Full):
                self._told.put(told, timeout=1)
                return


class ConfigMapChanges:
    """For one thread; each namespace has a client of its own."""

    def __init__(self, open_: OpenCluster) -> None:
        self._open = open_
        self._told: queue.Queue[Told] = queue.Queue(_MOST)
        self._watches: dict[str, _Watch] = {}

    def next(self, destinations: Collection[Destination], timeout_s: float) -> frozenset[str]:
        """The name of a destination is `namespace/name`."""
        places = {tuple(each.name.split("/", 1)): each.id for each in destinations}
        self._follow({namespace for namespace, _name in places})
        ids: set[str] = set()
        for namespace, name in self._heard(timeout_s):
            ids |= {
                place_id
                for place, place_id in places.items()
                if place == (namespace, name) or (not name and place[0] == namespace)
            }
        return frozenset(ids)

    def close(self) -> None:
        """Threads end with the answer that they read."""
        for watch in self._watches.values():
            watch.ended.set()
        self._watches.clear()

    def _follow(self, namespaces: set[str]) -> None:
        for namespace in namespaces - self._watches.keys():
            self._watches[namespace] = _Watch(self._open, namespace, self._told)
        for namespace in self._watches.keys() - namespaces:
            self._watches.pop(namespace).ended.set()

    def _heard(self, timeout_s: float) -> list[tuple[str, str]]:
        found: list[tuple[str, str]] = []
        try:
            told = self._told.get(timeout=timeout_s)
            while len(found) < _MOST:
                if isinstance(told, SinkError):
                    raise told
                found.append(told)
                told = self._told.get_nowait()
        except queue.Empty:
            pass
        return found
