"""The containers, networks and volumes of an installation on one engine, by label.

A list takes three calls, whatever there is: none is inspected for it.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

import docker
import msgspec

from kernel import clock
from kernel.agent_protocol import UNKNOWN_TIME, ResourceKind, RuntimeResource
from worker.domain import ownership
from worker.domain.ownership import UnitOwner
from worker.runtimes.docker import unit_copies
from worker.runtimes.docker.engine import APIError, ContainerEngine, NotFound
from worker.runtimes.docker.run_environment import filters, remove_network
from worker.runtimes.docker.started_ahead import Releases

CALL_S: Final = 8.0
_CONFLICT: Final = 409
_GONE_WITHIN_TRIES: Final = 20
_PAUSE_S: Final = 0.1
_TIME: Final = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.\d+)?(Z|[+-]\d\d:\d\d)\Z")
_EXITED: Final = re.compile(r"Exited \((\d+)\)")


class _Port(msgspec.Struct, frozen=True, rename="pascal"):
    private_port: int
    type: str = "tcp"
    public_port: int | None = None


class _Listed(msgspec.Struct, frozen=True, rename="pascal"):
    """A container as the engine lists it; `created` in Unix seconds."""

    id: str
    created: int
    names: tuple[str, ...] | None = None
    image: str = ""
    state: str = ""
    status: str = ""
    ports: tuple[_Port, ...] | None = None
    labels: dict[str, str] | None = None


class InstallationResources:
    """Lists, inspects and removes what has the labels of an installation, and nothing else."""

    def __init__(self, engine: ContainerEngine, installation_id: str, releases: Releases) -> None:
        self._engine = engine
        self._releases = releases
        self._installation_id = installation_id

    async def list_all(self) -> Sequence[RuntimeResource]:
        owner = UnitOwner(installation_id=self._installation_id, orchestrator_id="", host_id="")
        ours = filters(owner)

        def read(client: docker.APIClient) -> list[RuntimeResource]:
            containers = msgspec.convert(
                client.containers(all=True, filters=ours), tuple[_Listed, ...]
            )
            networks = client.networks(filters=ours)
            volumes = client.volumes(filters=ours)["Volumes"] or []
            return [
                *map(_container, containers),
                *map(_network, networks),
                *map(_volume, volumes),
            ]

        found = await self._engine.call(read, deadline_s=CALL_S, retry=False)
        owned = (each for each in found if ownership.is_owned(each.labels, self._installation_id))
        return [self._since_release(each) for each in owned]

    def _since_release(self, resource: RuntimeResource) -> RuntimeResource:
        """Return a container with the time of its release, if this supervisor started it ahead."""
        if ownership.GATE not in resource.labels:
            return resource
        started_at = self._releases.started_at(resource.labels[ownership.RUN_ID], resource.id)
        return replace(resource, started_at=started_at)

    async def look_at(self, resource: RuntimeResource) -> RuntimeResource | None:
        inspect = _INSPECTIONS[resource.kind]
        try:
            found = await self._engine.call(lambda client: inspect(client, resource.id))
            return self._since_release(found)
        except NotFound:
            return None

    async def remove(self, resource: RuntimeResource) -> bool:
        """Remove what is still the same resource; return whether it is gone. Raises APIError."""
        now = await self.look_at(resource)
        if now is None:
            return True
        if not ownership.is_owned(now.labels, self._installation_id):
            return False
        try:
            await self._engine.call(lambda client: _remove(client, now))
        except NotFound:
            return True
        except APIError as error:
            if resource.kind != "container" or error.status_code != _CONFLICT:
                raise
        for _ in range(_GONE_WITHIN_TRIES):  # another caller may be at it
            if await self.look_at(resource) is None:
                return True
            await asyncio.sleep(_PAUSE_S)
        return False


def _remove(client: docker.APIClient, resource: RuntimeResource) -> None:
    """Remove it; with a copy of a unit go its images, with a network those that lost their copy."""
    labels = resource.labels
    if resource.kind == "volume":
        client.remove_volume(resource.id)
    elif resource.kind == "network":
        remove_network(client, resource.id)
        unit_copies.remove_images(client, _same(labels, ownership.RUN_ID))
    elif unit_copies.is_copy(labels):
        unit_copies.remove_copies(client, _same(labels, ownership.SHELL))
    else:
        client.remove_container(resource.id, v=True, force=True)


def _same(labels: Mapping[str, str], *names: str) -> dict[str, list[str]]:
    """Return the filter for what has the same labels: of the installation, and these."""
    same = (ownership.MANAGED, ownership.INSTALLATION, *names)
    return {"label": [f"{name}={labels.get(name, '')}" for name in same]}


def _container(found: _Listed) -> RuntimeResource:
    name = next(iter(found.names or ()), found.id[:12])
    return _container_resource(
        found.id, name, datetime.fromtimestamp(found.created, UTC), found.labels or {}, found
    )


def _container_resource(
    id_: str,
    name: str,
    created_at: datetime,
    labels: Mapping[str, str],
    listed: _Listed,
) -> RuntimeResource:
    labels = ownership.without_step(labels) if unit_copies.is_copy(labels) else labels
    exited = _EXITED.match(listed.status)
    limit = labels.get(ownership.MEMORY_LIMIT, "")
    return RuntimeResource(
        kind="container",
        id=id_,
        name=name.removeprefix("/"),
        created_at=created_at,
        labels=labels,
        image=listed.image,
        state=listed.state,
        status=listed.status,
        ports=tuple(sorted({_port(each) for each in listed.ports or ()})),
        started_at=_labeled_time(labels.get(ownership.STARTED_AT, "")),
        exit_code=int(exited[1]) if exited else None,
        memory_limit_bytes=int(limit) if limit.isdecimal() else None,
    )


def _port(port: _Port) -> str:
    private = f"{port.private_port}/{port.type}"
    return f"{port.public_port} -> {private}" if port.public_port else private


def _labeled_time(text: str) -> datetime | None:
    try:
        return clock.parse_rfc3339(text)
    except ValueError:
        return None


def _network(found: Mapping[str, Any]) -> RuntimeResource:
    return RuntimeResource(
        kind="network",
        id=str(found["Id"]),
        name=str(found["Name"]),
        created_at=engine_time(str(found.get("Created") or "")),
        labels=found.get("Labels") or {},
        driver=str(found.get("Driver") or ""),
        scope=str(found.get("Scope") or ""),
    )


def _volume(found: Mapping[str, Any]) -> RuntimeResource:
    return RuntimeResource(
        kind="volume",
        id=str(found["Name"]),
        name=str(found["Name"]),
        created_at=engine_time(str(found.get("CreatedAt") or "")),
        labels=found.get("Labels") or {},
        driver=str(found.get("Driver") or ""),
        mountpoint=str(found.get("Mountpoint") or ""),
    )


def engine_time(text: str) -> datetime:
    """Return a time of the engine in whole seconds; UNKNOWN_TIME for one that cannot be read."""
    match = _TIME.match(text)
    if match is None:
        return UNKNOWN_TIME
    offset = "+00:00" if match[2] == "Z" else match[2]
    try:
        return datetime.fromisoformat(f"{match[1]}{offset}").astimezone(UTC)
    except (ValueError, OverflowError):
        return UNKNOWN_TIME


def _inspect_container(client: docker.APIClient, id_: str) -> RuntimeResource:
    found = client.inspect_container(id_)
    state = found["State"]
    listed = _Listed(
        id=found["Id"],
        created=0,
        image=found["Config"].get("Image") or "",
        state=state["Status"],
        status=f"Exited ({state['ExitCode']})" if state["Status"] == "exited" else "",
    )
    created_at = engine_time(found["Created"])
    labels = found["Config"].get("Labels") or {}
    return _container_resource(found["Id"], found["Name"], created_at, labels, listed)


_INSPECTIONS: Final[dict[ResourceKind, Any]] = {
    "container": _inspect_container,
    "network": lambda client, id_: _network(client.inspect_network(id_)),
    "volume": lambda client, name: _volume(client.inspect_volume(name)),
}
