"""The watch of pods on an API server with every edge that a watch can have, drawn by seed."""

from __future__ import annotations

import asyncio
import json
import random
import ssl
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import httpx
import pytest

from kernel.cluster_access import ClusterAccess
from worker.runtimes.kubernetes import pod_watch
from worker.runtimes.kubernetes.client import ClusterClient
from worker.runtimes.kubernetes.objects import Meta, Pod
from worker.runtimes.kubernetes.pod_watch import PodWatch

NAMES = [f"pod-{number}" for number in range(5)]


class Events(httpx.AsyncByteStream):
    def __init__(self, lines: AsyncIterator[bytes]) -> None:
        self._lines = lines

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for line in self._lines:
            yield line


class ScriptedApi:
    """Pods with versions and a history; watches end, break, expire and are silent as drawn."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.pods: dict[str, dict[str, Any]] = {}
        self.history: list[tuple[int, str, dict[str, Any]]] = []
        self.version = 1
        self.oldest = 0
        self.calm = False  # nothing goes wrong any more
        self.lists = 0
        self.reads = 0
        self.while_listing: Callable[[], None] = lambda: None

    def client(self) -> ClusterClient:
        access = ClusterAccess(
            server="http://cluster", trust=ssl.create_default_context(), token=lambda: "t"
        )
        transport = httpx.MockTransport(self.respond)
        return ClusterClient(access, "apps", unavailable_after_s=1, transport=transport)

    def change(self, name: str) -> None:
        self.version += 1
        is_new = name not in self.pods
        if not is_new and self.draw.random() < 0.3:
            gone = {**self.pods.pop(name)}
            self._tell("DELETED", {**gone, "metadata": self._meta(name)})
            return
        self.pods[name] = {"metadata": self._meta(name), "status": {"message": str(self.version)}}
        self._tell("ADDED" if is_new else "MODIFIED", self.pods[name])

    def _meta(self, name: str) -> dict[str, Any]:
        return {"name": name, "resourceVersion": str(self.version)}

    def _tell(self, kind: str, pod: dict[str, Any]) -> None:
        self.history.append((self.version, kind, pod))

    def compact(self) -> None:
        self.oldest = self.version

    async def respond(self, request: httpx.Request) -> httpx.Response:
        query = request.url.params
        if not self.calm and self.draw.random() < 0.1:
            raise httpx.ConnectError("partition")
        if query.get("watch"):
            return self._watch(int(query["resourceVersion"]))
        if request.url.path.endswith("/pods"):
            self.lists += 1
            meta = {"resourceVersion": str(self.version)}
            answer = httpx.Response(200, json={"metadata": meta, "items": [*self.pods.values()]})
            self.while_listing()
            return answer
        self.reads += 1
        found = self.pods.get(request.url.path.rpartition("/")[2])
        return httpx.Response(200, json=found) if found else httpx.Response(404, json={"code": 404})

    def _watch(self, version: int) -> httpx.Response:
        if version < self.oldest and self.draw.random() < 0.5:
            return httpx.Response(410, json={"kind": "Status", "code": 410, "message": "too old"})
        return httpx.Response(200, stream=Events(self._lines(version)))

    async def _lines(self, version: int) -> AsyncIterator[bytes]:
        if version < self.oldest:
            yield _line("ERROR", {"kind": "Status", "code": 410, "message": "too old"})
            return
        for _ in range(self.draw.randrange(5, 40)):
            for number, kind, pod in list(self.history):
                if number > version:
                    version = number
                    line = _line(kind, pod)
                    cut = self.draw.randrange(len(line))
                    if not self.calm and self.draw.random() < 0.05:
                        yield line[:cut]
                        raise httpx.ReadError("unexpected EOF")
                    yield line[:cut]
                    yield line[cut:]
            if self.draw.random() < 0.2:
                about = {"resourceVersion": str(version)}
                yield _line("BOOKMARK", {"metadata": about, "spec": {"containers": None}})
            await asyncio.sleep(0.002)


def _line(kind: str, body: dict[str, Any]) -> bytes:
    return json.dumps({"type": kind, "object": body}).encode() + b"\n"


@pytest.mark.parametrize("seed", range(25))
async def test_the_watch_ends_up_with_what_there_is(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pod_watch, "_PAUSE_S", 0.001)
    monkeypatch.setattr(pod_watch, "READ_EVERY_S", 0.2)
    api = ScriptedApi(seed)
    client = api.client()
    watch = PodWatch(client, "partita.managed=true")
    api.change("last")
    ending = asyncio.create_task(watch.until("last", lambda pod: pod.status.message == "end"))
    for _ in range(60):
        api.change(api.draw.choice(NAMES))
        if api.draw.random() < 0.1:
            api.compact()
        await asyncio.sleep(0.001)
    api.calm = True
    api.version += 1
    api.pods["last"] = {"metadata": api._meta("last"), "status": {"message": "end"}}
    api._tell("MODIFIED", api.pods["last"])

    async with asyncio.timeout(10):
        ended = await ending
    for _ in range(1_000):
        if _known(watch) == _there(api):
            break
        await asyncio.sleep(0.005)

    assert ended is not None
    assert _known(watch) == _there(api)
    await watch.close()
    await client.close()


def _known(watch: PodWatch, names: Sequence[str] = (*NAMES, "last")) -> dict[str, str]:
    found = {name: watch.get(name) for name in names}
    return {name: pod.status.message for name, pod in found.items() if pod}


def _there(api: ScriptedApi) -> dict[str, str]:
    return {name: pod["status"]["message"] for name, pod in api.pods.items()}


async def test_a_pod_that_is_waited_for_is_read_though_the_watch_is_silent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pod_watch, "READ_EVERY_S", 0.05)
    api = ScriptedApi(0)
    api.calm = True
    api.change("pod-0")
    client = api.client()
    watch = PodWatch(client, "partita.managed=true")
    ending = asyncio.create_task(watch.until("pod-0", _is_changed))
    await asyncio.sleep(0.02)

    api.pods["pod-0"] = {"metadata": {"name": "pod-0", "resourceVersion": "99"}, "status": CHANGED}

    async with asyncio.timeout(5):
        assert await ending
    await watch.close()
    await client.close()


async def test_where_many_pods_are_waited_for_a_list_reads_them_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pod_watch, "READ_EVERY_S", 0.2)
    api = ScriptedApi(0)
    api.calm = True
    names = [f"pod-{number}" for number in range(40)]
    for name in names:
        api.version += 1
        api.pods[name] = {"metadata": api._meta(name)}
    client = api.client()
    watch = PodWatch(client, "partita.managed=true")
    ending = [asyncio.create_task(watch.until(name, _is_changed)) for name in names]
    for _ in range(1_000):
        if len(_known(watch, names)) == len(names):
            break
        await asyncio.sleep(0.01)
    before = api.reads

    gone, *changed = names
    del api.pods[gone]
    for name in changed:
        api.version += 1
        api.pods[name] = {"metadata": api._meta(name), "status": CHANGED}

    async with asyncio.timeout(10):
        ended = await asyncio.gather(*ending)
    assert [pod.name for pod in ended if pod] == changed
    assert api.reads - before <= pod_watch.READ_ALONE
    assert api.lists <= 3
    await watch.close()
    await client.close()


@pytest.mark.parametrize("reading", ["_list", "_read_all"])
async def test_a_pod_that_comes_while_all_are_listed_is_not_forgotten(reading: str) -> None:
    api = ScriptedApi(0)
    api.calm = True
    api.change("pod-0")
    client = api.client()
    watch = PodWatch(client, "partita.managed=true")
    late = Pod(metadata=Meta(name="late", uid="u", resource_version="9"))
    api.while_listing = lambda: watch.note(late)

    await getattr(watch, reading)()

    assert watch.get("late") == late
    assert watch.get("pod-0") is not None
    await client.close()


CHANGED: Any = {"message": "changed behind the watch's back"}


def _is_changed(pod: Pod) -> bool:
    return pod.status.message == str(CHANGED["message"])


async def test_a_pod_that_is_gone_is_none_and_remembered_as_it_was() -> None:
    api = ScriptedApi(0)
    api.calm = True
    api.change("pod-0")
    client = api.client()
    watch = PodWatch(client, "partita.managed=true")
    ending = asyncio.create_task(watch.until("pod-0", lambda pod: False))
    await asyncio.sleep(0.05)

    api.version += 1
    gone = {**api.pods.pop("pod-0"), "metadata": api._meta("pod-0")}
    api._tell("DELETED", gone)

    async with asyncio.timeout(5):
        assert await ending is None
    last = watch.last_seen("pod-0")
    assert last is not None
    assert last.name == "pod-0"
    await watch.close()
    await client.close()


def test_news_of_a_deleted_pod_do_not_hide_the_one_that_has_its_name_now() -> None:
    def event(kind: str, uid: str, version: str) -> bytes:
        about = {"name": "a", "uid": uid, "resourceVersion": version}
        return json.dumps({"type": kind, "object": {"metadata": about}}).encode()

    watch = PodWatch(ScriptedApi(1).client(), "x=y")
    watch._apply(event("ADDED", "first", "3"))
    watch.note(Pod(metadata=Meta(name="a", uid="second", resource_version="7")))

    for kind, version in (("MODIFIED", "4"), ("DELETED", "5")):
        watch._apply(event(kind, "first", version))

    known = watch.get("a")
    assert known is not None
    assert known.metadata.uid == "second"
    watch._apply(event("DELETED", "second", "8"))
    assert watch.get("a") is None
