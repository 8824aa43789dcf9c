"""Networks that an engine does not make, and those that it does not remove."""

from __future__ import annotations

from typing import Any

import pytest
import requests

from worker.runtimes.docker.engine import APIError, RuntimeRefused
from worker.runtimes.docker.run_environment import network_maker, remove_network


def refusal(status: int, message: str) -> APIError:
    response = requests.Response()
    response.status_code = status
    return APIError(str(status), response=response, explanation=message)


class FullEngine:
    """Has no network, and refuses to create one with this message."""

    def __init__(self, message: str) -> None:
        self._message = message

    def networks(self, names: list[str]) -> list[Any]:
        return []

    def create_network(self, name: str, **options: Any) -> None:
        raise refusal(500, self._message)


def test_an_engine_without_address_ranges_says_how_to_get_more():
    full: Any = FullEngine(
        "could not find an available, non-overlapping IPv4 address pool among the defaults "
        "to assign to the network"
    )

    with pytest.raises(RuntimeRefused, match="default-address-pools") as raised:
        network_maker("run-1", {})(full)
    assert "environment list" in str(raised.value)


def test_another_refusal_stays_the_engine_s_own():
    gone: Any = FullEngine("plug-in is gone")

    with pytest.raises(APIError, match="plug-in is gone"):
        network_maker("run-1", {})(gone)


class BusyEngine:
    """Has a network with these endpoints, id → name; only the containers of `existing` exist."""

    def __init__(self, endpoints: dict[str, str], existing: tuple[str, ...] = ()) -> None:
        self.endpoints, self._existing = endpoints, existing
        self.has_network = True
        self.forced: list[str] = []

    def remove_network(self, network: str) -> None:
        if self.endpoints:
            raise refusal(403, f"error while removing network: {network} has active endpoints")
        self.has_network = False

    def inspect_network(self, _network: str) -> dict[str, Any]:
        return {"Containers": {id_: {"Name": name} for id_, name in self.endpoints.items()}}

    def containers(self, *, all: bool) -> list[dict[str, str]]:  # noqa: A002 - the client's name
        assert all, "one that has ended may be started again"
        return [{"Id": each} for each in self._existing]

    def disconnect_container_from_network(self, name: str, _network: str, *, force: bool) -> None:
        assert force
        self.forced.append(name)
        self.endpoints = {id_: each for id_, each in self.endpoints.items() if each != name}


def test_what_is_left_of_a_container_that_is_gone_does_not_keep_its_network():
    busy = BusyEngine({"c0ffee": "store-1", "ep-beef": "api-1"})

    engine: Any = busy
    remove_network(engine, "run-1")

    assert not busy.has_network
    assert busy.forced == ["store-1", "api-1"]


def test_a_container_that_exists_keeps_the_network_it_is_on():
    busy = BusyEngine({"c0ffee": "debugger"}, existing=("c0ffee",))

    engine: Any = busy
    with pytest.raises(APIError, match="active endpoints"):
        remove_network(engine, "run-1")

    assert busy.has_network
    assert busy.forced == []
