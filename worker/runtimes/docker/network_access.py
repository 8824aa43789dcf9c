"""The access of this process to a run's network, as its own interfaces prove it.

An address of the network proves nothing, because another program here may have the same one. On the
engine's own host, the network's bridge is an interface. A process in a container of the engine is
connected to the network. All other processes have no access.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

import docker

from worker.runtimes.docker.engine import APIError, Engine, NotFound, explanation

log = logging.getLogger("partita.workers")
Interfaces = Callable[[], Mapping[str, frozenset[str]]]  # name → its IP and MAC addresses
_BRIDGE_NAME: Final = "com.docker.network.bridge.name"


class NetworkAccess:
    """Determines the access once per network; `leave` disconnects this process."""

    def __init__(self, engine: Engine, interfaces: Interfaces, host_name: str) -> None:
        self._engine = engine
        self._interfaces = interfaces
        self._host_name = host_name
        self._own_id: str | None = None
        self._decided: dict[str, bool] = {}
        self._lock = asyncio.Lock()

    async def is_on(self, network: str) -> bool:
        async with self._lock:
            if network not in self._decided:
                found = await self._inspect(network)
                self._decided[network] = found is not None and (
                    self._has_bridge(found) or await self._join(network)
                )
            return self._decided[network]

    async def leave(self, networks: list[str]) -> None:
        """Disconnect from networks before their removal, even if an earlier process connected."""
        async with self._lock:
            if own := await self._own():
                for network in networks:
                    await self._engine.call(_disconnection(own, network))

    def forget(self, run_id: str) -> None:
        for network in [name for name in self._decided if run_id in name]:
            del self._decided[network]

    def _has_bridge(self, found: Mapping[str, Any]) -> bool:
        name = (found.get("Options") or {}).get(_BRIDGE_NAME) or f"br-{found['Id'][:12]}"
        gateways = {each.get("Gateway", "") for each in found["IPAM"]["Config"] or []} - {""}
        return bool(gateways & self._interfaces().get(name, frozenset()))

    async def _join(self, network: str) -> bool:
        own = await self._own()
        if not own:
            return False
        try:
            await self._engine.call(lambda client: _connect(client, own, network))
        except APIError:
            return False
        if self._is_joined(await self._inspect(network), own):
            return True
        await self._engine.call(_disconnection(own, network))
        return False

    def _is_joined(self, found: Mapping[str, Any] | None, own: str) -> bool:
        """Return True if the engine lists an endpoint of ours that is an interface here."""
        endpoint = ((found or {}).get("Containers") or {}).get(own, {})
        address = endpoint.get("IPv4Address", "").partition("/")[0]
        return self._has({address, endpoint.get("MacAddress", "")})

    async def _own(self) -> str:
        """Return the container that this process runs in; empty if it is none of this engine."""
        if self._own_id is None:
            self._own_id = await self._engine.call(self._find_own)
        return self._own_id

    def _find_own(self, client: docker.APIClient) -> str:
        for each in client.containers():
            networks = (each.get("NetworkSettings") or {}).get("Networks") or {}
            has_our_address = any(
                self._has({endpoint.get("IPAddress", ""), endpoint.get("MacAddress", "")})
                for endpoint in networks.values()
            )
            if has_our_address and _host_name_of(client, each["Id"]) == self._host_name:
                return str(each["Id"])
        return ""

    def _has(self, addresses: set[str]) -> bool:
        """Return True if one interface has all addresses; missing ones are empty."""
        return "" not in addresses and any(addresses <= own for own in self._interfaces().values())

    async def _inspect(self, network: str) -> Mapping[str, Any] | None:
        try:
            return await self._engine.call(lambda client: dict(client.inspect_network(network)))
        except NotFound:
            return None


def _host_name_of(client: docker.APIClient, container: str) -> str:
    try:
        return str(client.inspect_container(container)["Config"]["Hostname"])
    except NotFound:  # it went meanwhile
        return ""


def _connect(client: docker.APIClient, container: str, network: str) -> None:
    if container not in (client.inspect_network(network).get("Containers") or {}):
        client.connect_container_to_network(container, network)


def _disconnection(container: str, network: str) -> Callable[[docker.APIClient], None]:
    def disconnect(client: docker.APIClient) -> None:
        try:
            if container in (client.inspect_network(network).get("Containers") or {}):
                client.disconnect_container_from_network(container, network, force=True)
        except APIError as error:  # then the removal of the network fails and is logged
            log.warning("cannot disconnect from %s: %s", network, explanation(error))

    return disconnect
