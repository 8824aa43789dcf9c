"""Requests to the API server of Kubernetes, and the change notifications of its ConfigMaps."""

from __future__ import annotations

import contextlib
import json
import queue
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import httpx

from kernel import clock
from kernel.background import BackgroundThread
from kernel.cluster_access import (
    ClusterAccess,
    access_by_values,
    from_kubeconfig,
    in_cluster,
)
from kernel.exec_plugin import AccessRefused, AccessTimeout
from sync_stack.core.headers import read_retry_after
from sync_stack.core.sink import Destination, SinkConflict, SinkError
from sync_stack.sinks.configmap import ConfigMapOptions
from sync_stack.sinks.limits import Timeouts
from sync_stack.sinks.open_sinks import Resolve

Object = dict[str, Any]
_OURS: Final = "labelSelector=app.kubernetes.io%2Fmanaged-by%3Dpartita"
WATCH_S: Final = 20.0
_LATE_S: Final = 5.0
_MOST_OF_EVENT: Final = 4 * 2**20  # a ConfigMap has 1 MiB
_VERBS: Final = {"GET": "get", "POST": "create", "PUT": "update"}
_MOST: Final = 1000
WatchEvent = tuple[str, str] | SinkError  # namespace and name (empty: any), or what ended the watch


class WatchExpired(Exception):
    """The version to watch from is too old: events since may be lost."""


def access(options: ConfigMapOptions, resolve: Resolve) -> ClusterAccess:
    """Return the access by the options, a kubeconfig, or this pod's account. Raises SinkError."""
    with _access_errors():
        insecure = options.insecure_skip_verify
        if options.api_server:
            return access_by_values(
                options.api_server,
                token=resolve(options.token) if options.token else "",
                ca_cert=options.ca_cert,
                client_cert=options.client_cert,
                client_key=resolve(options.client_key) if options.client_key else "",
                insecure=insecure,
            )
        if options.kubeconfig_path:
            path = Path(options.kubeconfig_path)
            return from_kubeconfig(path, context=options.context, insecure=insecure)
        return in_cluster()


@contextlib.contextmanager
def _access_errors() -> Iterator[None]:
    try:
        yield
    except AccessTimeout as error:
        raise SinkError("sink_timeout", str(error)) from None
    except AccessRefused as error:
        raise SinkError("sink_auth", str(error)) from None


class Cluster:
    """ConfigMaps and namespaces of one API server; may be used by several threads."""

    def __init__(self, options: ConfigMapOptions, timeouts: Timeouts, resolve: Resolve) -> None:
        self._access = access(options, resolve)
        limits = httpx.Timeout(timeouts.answer_s, connect=timeouts.connect_s)
        self._client = httpx.Client(
            base_url=self._access.server,
            verify=self._access.trust,
            timeout=limits,
            trust_env=False,
            follow_redirects=False,
        )

    def get(self, namespace: str, name: str) -> Object | None:
        answer = self._send("GET", f"{_path(namespace)}/{name}", namespace)
        return None if answer.status_code == httpx.codes.NOT_FOUND else _object(answer)

    def replace(self, namespace: str, name: str, changed: Mapping[str, Any]) -> None:
        """Raises SinkConflict when it is gone, or stored at another resourceVersion."""
        answer = self._send("PUT", f"{_path(namespace)}/{name}", namespace, changed)
        if answer.status_code in (httpx.codes.CONFLICT, httpx.codes.NOT_FOUND):
            raise SinkConflict(f"ConfigMap {namespace}/{name} changed after it was read")

    def create(self, namespace: str, made: Mapping[str, Any]) -> bool:
        """False when the namespace does not exist. Raises SinkConflict."""
        answer = self._send("POST", _path(namespace), namespace, made)
        if answer.status_code == httpx.codes.CONFLICT:
            raise SinkConflict("the ConfigMap has been created meanwhile")
        return answer.status_code != httpx.codes.NOT_FOUND

    def create_namespace(self, namespace: str) -> None:
        """Create a namespace unless it exists."""
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
        self._send("POST", "/api/v1/namespaces", namespace, body)

    def newest(self, namespace: str) -> str:
        """The version from which a watch of our ConfigMaps tells everything."""
        listed = self._send("GET", f"{_path(namespace)}?{_OURS}&limit=1", namespace)
        return str(_object(listed)["metadata"].get("resourceVersion", ""))

    def watch(self, namespace: str, version: str) -> Iterator[tuple[str, str, str]]:
        """Type, name and version of each event since, for WATCH_S. Raises WatchExpired."""
        query = f"{_OURS}&watch=true&allowWatchBookmarks=true&timeoutSeconds={WATCH_S:g}"
        path = f"{_path(namespace)}?{query}&resourceVersion={version}"
        patience = httpx.Timeout(WATCH_S + _LATE_S, connect=self._client.timeout.connect)
        with (
            _translate_errors(),
            self._client.stream("GET", path, headers=self._headers(), timeout=patience) as answer,
        ):
            if answer.status_code == httpx.codes.GONE:
                raise WatchExpired
            self._note(answer)
            _refuse(answer, f"watch configmaps in namespace {namespace!r}")
            for line in _lines(answer):
                yield _event(line)

    def close(self) -> None:
        self._client.close()

    def _headers(self) -> dict[str, str]:
        with _access_errors():
            token = self._access.token()
        return {"Authorization": f"Bearer {token}"} if token else {}

    def _note(self, answer: httpx.Response) -> None:
        if answer.status_code == httpx.codes.UNAUTHORIZED:
            self._access.refused()

    def _send(
        self, method: str, path: str, namespace: str, body: Mapping[str, Any] | None = None
    ) -> httpx.Response:
        """200, 201, 404 and 409 come back; everything else is raised."""
        with _translate_errors():
            answer = self._client.request(method, path, json=body, headers=self._headers())
        self._note(answer)
        resource = "namespaces" if path == "/api/v1/namespaces" else "configmaps"
        _refuse(answer, f"{_VERBS[method]} {resource} in namespace {namespace!r}")
        return answer


def _path(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/configmaps"


def _object(answer: httpx.Response) -> Object:
    try:
        found = answer.json()
    except ValueError:
        raise SinkError("sink_unavailable", "the Kubernetes API did not return JSON") from None
    if not isinstance(found, dict) or not isinstance(found.get("metadata"), dict):
        raise SinkError("sink_unavailable", "the Kubernetes API did not return an object")
    return found


def _lines(answer: httpx.Response) -> Iterator[bytes]:
    """One event each, as soon as it is there."""
    rest = b""
    for chunk in answer.iter_bytes():
        *lines, rest = (rest + chunk).split(b"\n")
        yield from filter(None, lines)
        if len(rest) > _MOST_OF_EVENT:
            raise SinkError(
                "sink_unavailable", "the Kubernetes API sent an event that is too large"
            )


def _event(line: bytes) -> tuple[str, str, str]:
    try:
        event = json.loads(line)
        kind, found = str(event["type"]), event["object"]
        if kind == "ERROR" and found.get("code") == httpx.codes.GONE:
            raise WatchExpired
        about = found["metadata"]
        return kind, str(about.get("name", "")), str(about.get("resourceVersion", ""))
    except (ValueError, LookupError, TypeError, AttributeError):
        raise SinkError("sink_unavailable", "the Kubernetes API did not send an event") from None


def _refuse(answer: httpx.Response, act: str) -> None:
    status = answer.status_code
    if status in (200, 201, 404, 409):
        return
    if status in (401, 403):
        raise SinkError("sink_auth", f"Partita may not {act} (Kubernetes: {status})")
    if status == httpx.codes.REQUEST_ENTITY_TOO_LARGE:
        raise SinkError("destination_too_large", f"Kubernetes: {act} ({status})")
    if status in (400, 422):
        raise SinkError("destination_invalid", f"Kubernetes refused to {act} ({status})")
    raise SinkError(
        "sink_unavailable",
        f"Kubernetes: {act} ({status})",
        retry_after_s=read_retry_after(answer.headers.get("retry-after", ""), now=clock.now()),
    )


@contextlib.contextmanager
def _translate_errors() -> Iterator[None]:
    try:
        yield
    except httpx.TimeoutException:
        raise SinkError("sink_timeout", "the Kubernetes API did not answer in time") from None
    except (httpx.HTTPError, OSError) as error:
        raise SinkError("sink_unavailable", f"Kubernetes API: {type(error).__name__}") from None


class _Watch:
    """One namespace, on a thread: from where the last event was, so that nothing is missed."""

    def __init__(
        self, open_: Callable[[], Cluster], namespace: str, events: queue.Queue[WatchEvent]
    ) -> None:
        self._open = open_
        self._namespace = namespace
        self._events = events
        self.ended = threading.Event()
        BackgroundThread(
            "configmap-watch",
            self._run,
            ended=self.ended,
            after_failure=lambda: self._report((namespace, "")),  # what came meanwhile is not known
            title=f"watch-{namespace}",
        ).start()

    def _run(self) -> None:
        try:
            with contextlib.closing(self._open()) as cluster:
                version = cluster.newest(self._namespace)
                while not self.ended.is_set():
                    version = self._watch(cluster, version)
        except SinkError as error:
            self._report(error)

    def _watch(self, cluster: Cluster, version: str) -> str:
        """Until the server ends it; the version to go on from."""
        try:
            for kind, name, reached in cluster.watch(self._namespace, version):
                if self.ended.is_set():
                    break
                version = reached or version
                if kind != "BOOKMARK":
                    self._report((self._namespace, name))
        except WatchExpired:
            version = cluster.newest(self._namespace)
            self._report((self._namespace, ""))
        return version

    def _report(self, event: WatchEvent) -> None:
        while not self.ended.is_set():
            with contextlib.suppress(queue.Full):
                self._events.put(event, timeout=1)
                return


class ConfigMapChanges:
    """For one thread; each namespace has a client of its own."""

    def __init__(self, open_: Callable[[], Cluster]) -> None:
        self._open = open_
        self._events: queue.Queue[WatchEvent] = queue.Queue(_MOST)
        self._watches: dict[str, _Watch] = {}

    def next(self, destinations: Collection[Destination], timeout_s: float) -> frozenset[str]:
        """Wait for changes; return the ids of the destinations (`namespace/name`) that changed."""
        places = {tuple(each.name.split("/", 1)): each.id for each in destinations}
        namespaces = {namespace for namespace, _name in places}
        for namespace in namespaces - self._watches.keys():
            self._watches[namespace] = _Watch(self._open, namespace, self._events)
        for namespace in self._watches.keys() - namespaces:
            self._watches.pop(namespace).ended.set()
        ids: set[str] = set()
        for namespace, name in self._take_events(timeout_s):
            ids |= {
                place_id
                for place, place_id in places.items()
                if place == (namespace, name) or (not name and place[0] == namespace)
            }
        return frozenset(ids)

    def close(self) -> None:
        """End the threads, each with the answer that it reads."""
        for watch in self._watches.values():
            watch.ended.set()
        self._watches.clear()

    def _take_events(self, timeout_s: float) -> list[tuple[str, str]]:
        found: list[tuple[str, str]] = []
        try:
            event = self._events.get(timeout=timeout_s)
            while len(found) < _MOST:
                if isinstance(event, SinkError):
                    raise event
                found.append(event)
                event = self._events.get_nowait()
        except queue.Empty:
            pass
        return found
