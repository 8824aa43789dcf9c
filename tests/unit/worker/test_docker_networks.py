"""An engine whose address ranges are used up: the error says what to do."""

from __future__ import annotations

from typing import Any

import pytest
import requests

from worker.runtimes.docker.engine import APIError, RuntimeRefused
from worker.runtimes.docker.run_environment import network_maker


class FullEngine:
    """Has no network, and refuses to create one with this message."""

    def __init__(self, message: str) -> None:
        self._message = message

    def networks(self, names: list[str]) -> list[Any]:
        return []

    def create_network(self, name: str, **options: Any) -> None:
        response = requests.Response()
        response.status_code = 500
        raise APIError("500", response=response, explanation=self._message)


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
