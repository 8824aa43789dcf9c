"""The pods, Services and Secrets of an installation or a run, by label.

Pods count as containers and Services as networks. Secrets are removed with the run and not listed:
they belong to pods.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from datetime import datetime
from typing import Final

from kernel import clock
from kernel.agent_protocol import UNKNOWN_TIME, RuntimeResource
from worker.domain import ownership
from worker.domain.runtime import RemovedResources
from worker.runtimes.kubernetes.client import (
    ClusterClient,
    Exists,
    Gone,
    RequestDenied,
)
from worker.runtimes.kubernetes.objects import AnyList, AnyObject, Meta, Pod
from worker.runtimes.kubernetes.pod_spec import DIRECTORY, ROLE, select
from worker.runtimes.kubernetes.pod_watch import list_pods

TRIES: Final = 3
_PAUSE_S: Final = 0.2
_GONE_WITHIN_TRIES: Final = 75
_KINDS: Final = ("pods", "services", "secrets")
KEPT_ROLES: Final = frozenset({DIRECTORY})  # of Secrets that SharedDirectories removes


class ClusterResources:
    """Lists and removes what has the labels of an installation, and nothing else."""

    def __init__(self, client: ClusterClient, installation_id: str) -> None:
        self._client = client
        self._ours = {ownership.MANAGED: "true", ownership.INSTALLATION: installation_id}
        self._installation_id = installation_id

    @property
    def selector(self) -> str:
        return select(self._ours)

    async def pods(self, **labels: str) -> list[Pod]:
        """Return the pods with further labels, by their keys without dots."""
        found, _ = await list_pods(self._client, self._select(labels))
        return found

    def _select(self, labels: dict[str, str]) -> str:
        return select({**self._ours, **labels})

    async def runs(self, orchestrator_id: str) -> frozenset[str]:
        wanted = {ownership.ORCHESTRATOR: orchestrator_id}
        found = await self._list(_KINDS, wanted)
        runs = (meta.annotations.get(ownership.RUN_ID) for _, meta in found)
        return frozenset(run_id for run_id in runs if run_id)

    async def list_all(self) -> list[RuntimeResource]:
        pods = [pod_resource(pod) for pod in await self.pods()]
        services = [service_resource(meta) for _, meta in await self._list(("services",), {})]
        return [*pods, *services]

    async def look_at(self, resource: RuntimeResource) -> RuntimeResource | None:
        with contextlib.suppress(Gone):
            if resource.kind == "container":
                return pod_resource(await self._client.get("pods", resource.id, Pod))
            if resource.kind == "network":
                found = await self._client.get("services", resource.id, AnyObject)
                return service_resource(found.metadata)
        return None

    async def remove(self, resource: RuntimeResource) -> bool:
        now = await self.look_at(resource)
        if now is None:
            return True
        if not ownership.is_owned(now.labels, self._installation_id):
            return False
        if resource.kind == "container":
            await self.delete_owned_pod(resource.id)
        else:
            await self.delete("services", resource.id)
        for _ in range(_GONE_WITHIN_TRIES):
            if await self.look_at(resource) is None:
                return True
            await asyncio.sleep(_PAUSE_S)
        return False

    async def delete(self, kind: str, name: str, *, uid: str = "") -> bool:
        """Delete one object at once; return whether there was one."""
        try:
            await self._client.delete(kind, name, uid=uid)
        except (Gone, Exists):
            return False
        return True

    async def delete_owned_pod(self, name: str) -> bool:
        """Delete the pod unless it belongs to another installation; return whether it did."""
        try:
            found = await self._client.get("pods", name, AnyObject)
        except Gone:
            return False
        if not ownership.is_owned(found.metadata.annotations, self._installation_id):
            return False
        return await self.delete("pods", name, uid=found.metadata.uid)

    async def release(self, run_id: str) -> RemovedResources:
        """Remove all of a run and wait until it is gone, in up to three tries."""
        of_run = {ownership.RUN_ID: run_id}
        removed: dict[str, set[str]] = {"pods": set(), "services": set(), "secrets": set()}
        leftovers: list[str] = []
        for _ in range(TRIES):
            leftovers = await self._remove_once(of_run, removed)
            if not leftovers:
                break
        return RemovedResources(
            containers=len(removed["pods"]),
            networks=len(removed["services"]),
            leftovers=tuple(leftovers),
        )

    async def _remove_once(self, of_run: dict[str, str], removed: dict[str, set[str]]) -> list[str]:
        """Delete what there is; return what is still there after a while, as sentences."""
        problems: list[str] = []
        for kind, meta in await self._list(_KINDS, of_run):
            if meta.annotations.get(ROLE) in KEPT_ROLES:
                continue
            removed[kind].add(meta.name)
            try:
                await self.delete(kind, meta.name, uid=meta.uid)
            except RequestDenied as error:
                problems.append(f"{kind}/{meta.name}: {error}")
        return problems or await self._list_remaining(of_run)

    async def _list_remaining(self, of_run: dict[str, str]) -> list[str]:
        """Return the pods that are not gone in time."""
        left: list[Pod] = []
        for _ in range(_GONE_WITHIN_TRIES):
            left = await self.pods(**of_run)
            if not left:
                break
            await asyncio.sleep(_PAUSE_S)
        return [f"pods/{pod.name} is not gone yet" for pod in left]

    async def _list(self, kinds: Sequence[str], labels: dict[str, str]) -> list[tuple[str, Meta]]:
        """Return the objects with these labels, without the data of Secrets."""
        selector = self._select(labels)
        return [
            (kind, each.metadata)
            for kind in kinds
            async for page in self._client.pages(kind, AnyList, selector)
            for each in page.items or ()
        ]


def pod_resource(pod: Pod) -> RuntimeResource:
    labels = dict(pod.metadata.annotations)
    step = pod.step
    limit = labels.get(ownership.MEMORY_LIMIT, "")
    return RuntimeResource(
        kind="container",
        id=pod.name,
        name=pod.name,
        created_at=_created_at(pod.metadata),
        labels=labels,
        image=pod.image,
        state="exited" if step.terminated else "running" if step.running else "created",
        status=pod.status.phase,
        started_at=started_at(pod),
        exit_code=step.terminated.exit_code if step.terminated else None,
        memory_limit_bytes=int(limit) if limit.isdecimal() else None,
    )


def started_at(pod: Pod) -> datetime | None:
    """Return when the program of the step began: behind a gate, when that was opened."""
    notes = pod.metadata.annotations
    if ownership.GATE in notes:
        return cluster_time(notes.get(ownership.RELEASED_AT))
    state = pod.step.running or pod.step.terminated
    return cluster_time(state.started_at if state else None)


def service_resource(meta: Meta) -> RuntimeResource:
    return RuntimeResource(
        kind="network",
        id=meta.name,
        name=meta.name,
        created_at=_created_at(meta),
        labels=meta.annotations,
        driver="service",
    )


def _created_at(meta: Meta) -> datetime:
    return cluster_time(meta.creation_timestamp) or UNKNOWN_TIME


def cluster_time(text: str | None) -> datetime | None:
    """Return a time of the cluster, which is in whole seconds, or one that we noted there."""
    try:
        return clock.parse_rfc3339(text) if text else None
    except ValueError:
        return None
