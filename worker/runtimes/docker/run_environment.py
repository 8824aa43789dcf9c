"""Networks, volumes and files of a run, and its removal by label."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import docker

from worker.domain import ownership
from worker.domain.ownership import UnitOwner
from worker.domain.runtime import Launch, RemovedResources
from worker.runtimes.docker import unit_copies
from worker.runtimes.docker.engine import (
    APIError,
    ContainerEngine,
    NotFound,
    RuntimeRefused,
    explanation,
)

TRIES: Final = 3
_PAUSE_S: Final = 0.5
_IN_USE: Final = "active endpoints"
_NO_RANGE: Final = "address pool"  # "could not find an available, non-overlapping IPv4 …"
NETWORKS_EXHAUSTED: Final = (
    "Docker has no address range left for another network: remove environments that nobody needs "
    "(`./partita environment list`, `docker network prune`), or give the engine more ranges "
    "(default-address-pools in its daemon.json)"
)


class RunEnvironment:
    """Creates networks and volumes once per run, and fills shared directories once.

    A mark in `state_dir` records a filled volume. No step starts before the mark, so filling again
    after a crash overwrites nothing that a step wrote.
    """

    def __init__(self, engine: ContainerEngine, state_dir: Path) -> None:
        self._engine = engine
        self._marks = state_dir / "filled"
        self._ready: set[str] = set()
        self._opened: set[str] = set()  # volumes whose directory every user may write to
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def ensure(self, launch: Launch) -> None:
        for network in launch.networks:
            await self._once(network, network_maker(network, launch.run_labels))
        volume = launch.workspace.name
        await self._once(
            volume, lambda client: client.create_volume(volume, labels=dict(launch.run_labels))
        )

    async def _once(self, name: str, make: Callable[[docker.APIClient], Any]) -> None:
        async with self._locks[name]:
            if name not in self._ready:
                await self._engine.call(make)
                self._ready.add(name)

    def has(self, launch: Launch) -> bool:
        """Return whether networks and volume of the launch were created and not released."""
        return self._ready >= {*launch.networks, launch.workspace.name}

    @asynccontextmanager
    async def fill_once(self, launch: Launch, content: bytes) -> AsyncGenerator[bool]:
        """Provide whether the files of the shared directory are still to be put into the volume.

        The caller then puts them, through a created container that mounts it; others wait.
        """
        volume = launch.workspace.name
        if self._is_filled(volume, content):
            yield False
            return
        async with self._locks[f"files of {volume}"]:
            if self._is_filled(volume, content):
                yield False
                return
            yield True
            self._opened.add(volume)
            if content:  # without any, a later job of the run may bring files
                mark = self._marks / volume
                mark.parent.mkdir(parents=True, exist_ok=True)
                mark.touch()

    def _is_filled(self, volume: str, content: bytes) -> bool:
        return (self._marks / volume).exists() or (not content and volume in self._opened)

    async def networks(self, run_id: str, owner: UnitOwner) -> list[str]:
        of_run = filters(owner, **{ownership.RUN_ID: run_id})
        found = await self._engine.call(lambda client: client.networks(filters=of_run))
        return [str(each["Id"]) for each in found]

    async def runs(self, owner: UnitOwner) -> frozenset[str]:
        """Return the runs of which the supervisor has anything here."""

        def labels(client: Any) -> list[Mapping[str, str]]:
            ours = filters(owner, **{ownership.ORCHESTRATOR: owner.orchestrator_id})
            volumes = client.volumes(filters=ours)["Volumes"] or []
            containers = client.containers(all=True, filters=ours)
            networks = client.networks(filters=ours)
            return [each["Labels"] for each in (*containers, *networks, *volumes)]

        found = await self._engine.call(labels)
        return frozenset(each[ownership.RUN_ID] for each in found if ownership.RUN_ID in each)

    async def release(self, run_id: str, owner: UnitOwner) -> RemovedResources:
        total = RemovedResources()
        for attempt in range(TRIES):
            total = _sum(
                total, await self._engine.call(lambda client: _remove_all(client, run_id, owner))
            )
            if not total.leftovers:
                break
            await asyncio.sleep(_PAUSE_S * (attempt + 1))
        self._forget(run_id)
        return total

    def _forget(self, run_id: str) -> None:
        names = {name for name in self._ready if run_id in name}
        self._ready -= names
        self._opened -= names
        for name in [name for name in self._locks if run_id in name]:
            del self._locks[name]
        for mark in self._marks.glob(f"*{run_id}*"):
            mark.unlink(missing_ok=True)


def network_maker(name: str, labels: Mapping[str, str]) -> Callable[[docker.APIClient], None]:
    """Return a call that creates the network unless it exists. It raises RuntimeRefused."""

    def make(client: docker.APIClient) -> None:
        # Names of networks are not unique: look before creating; the filter matches parts of names.
        if not any(found["Name"] == name for found in client.networks(names=[name])):
            try:
                client.create_network(
                    name, driver="bridge", check_duplicate=True, labels=dict(labels)
                )
            except APIError as error:
                if _NO_RANGE in explanation(error):
                    raise RuntimeRefused(NETWORKS_EXHAUSTED) from error
                raise

    return make


def remove_network(client: docker.APIClient, network: str) -> None:
    """Remove a network, and first what it still has of containers that are gone.

    Docker keeps the endpoint of a container now and then, when it was busy at the container's end.
    The network is in use then until somebody disconnects the name that is left. A container that
    exists is somebody else's by now: it keeps the network. Raises APIError.
    """
    try:
        client.remove_network(network)
    except APIError as error:
        if _IN_USE not in explanation(error) or not _disconnect_gone(client, network):
            raise
        client.remove_network(network)


def _disconnect_gone(client: docker.APIClient, network: str) -> bool:
    """Disconnect the containers that do not exist; return whether there were any."""
    endpoints: Mapping[str, Any] = client.inspect_network(network)["Containers"] or {}
    existing = {each["Id"] for each in client.containers(all=True)}
    gone = [each["Name"] for id_, each in endpoints.items() if id_ not in existing]
    for name in gone:
        client.disconnect_container_from_network(name, network, force=True)
    return bool(gone)


def filters(owner: UnitOwner, **labels: str) -> dict[str, list[str]]:
    wanted = {ownership.MANAGED: "true", ownership.INSTALLATION: owner.installation_id} | labels
    return {"label": [f"{name}={value}" for name, value in wanted.items()]}


def _remove_all(client: docker.APIClient, run_id: str, owner: UnitOwner) -> RemovedResources:
    of_run = filters(owner, **{ownership.RUN_ID: run_id})
    copies = unit_copies.remove_copies(client, of_run)  # first: they mount volumes of units
    containers = [each["Id"] for each in client.containers(all=True, filters=of_run)]
    networks = [each["Id"] for each in client.networks(filters=of_run)]
    leftovers = list(copies.problems)
    removed_containers = _each(
        containers, lambda id_: client.remove_container(id_, v=True, force=True), leftovers
    )
    removed_networks = _each(networks, lambda id_: remove_network(client, id_), leftovers)
    # listed after the containers went: their own artifact volumes went with them
    volumes = [each["Name"] for each in client.volumes(filters=of_run)["Volumes"] or []]
    removed_volumes = _each(volumes, client.remove_volume, leftovers)
    return RemovedResources(
        containers=copies.copies + removed_containers,
        networks=removed_networks,
        volumes=removed_volumes,
        leftovers=tuple(leftovers),
    )


def _each(ids: list[str], remove: Callable[[str], None], leftovers: list[str]) -> int:
    count = 0
    for each in ids:
        try:
            remove(each)
            count += 1
        except NotFound:
            continue
        except APIError as error:
            leftovers.append(explanation(error))
    return count


def _sum(one: RemovedResources, two: RemovedResources) -> RemovedResources:
    return RemovedResources(
        containers=one.containers + two.containers,
        networks=one.networks + two.networks,
        volumes=one.volumes + two.volumes,
        leftovers=two.leftovers,
    )
