"""What `up` decides before it serves."""

from __future__ import annotations

import socket
from types import SimpleNamespace

import psutil
import pytest

from apps.console.embedded import demo as demos
from apps.console.embedded.up import Up
from apps.workers import api as workers
from worker.host import container_bridge


def interface(address: str, family: int = socket.AF_INET) -> SimpleNamespace:
    return SimpleNamespace(family=family, address=address)


def test_containers_reach_the_engines_bridge_and_no_other_network(monkeypatch):
    found = {
        "lo": [interface("127.0.0.1")],
        "br-office": [interface("192.0.2.7")],
        "docker0": [interface("fe80::1", socket.AF_INET6), interface("172.17.0.1")],
    }
    monkeypatch.setattr(psutil, "net_if_addrs", lambda: found)

    assert container_bridge() == "172.17.0.1"


def test_without_an_engine_there_is_no_bridge(monkeypatch):
    monkeypatch.setattr(psutil, "net_if_addrs", lambda: {"br-office": [interface("192.0.2.7")]})

    assert container_bridge() == ""


@pytest.mark.parametrize("demo", [True, False])
def test_the_images_of_the_examples_are_there_with_and_without_a_demo(monkeypatch, settings, demo):
    wanted: list[str] = []
    settings.UP_DEMO = demo
    monkeypatch.setattr(workers, "choose_local_runtime", lambda: ("docker", ""))
    monkeypatch.setattr(demos, "ensure_images", lambda names, _builder, _say: wanted.extend(names))

    assert Up()._choose_runtime() == "docker"

    assert {"python:3.12-alpine", "redis:7-alpine"} <= set(wanted)
