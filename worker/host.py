"""The identity of this host and process, and the host's network interfaces."""

from __future__ import annotations

import hashlib
import os
import socket
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psutil

_ENGINE_BRIDGE = "docker0"
_CLOCK_SLACK = timedelta(seconds=1)


def host_name() -> str:
    return socket.gethostname()


def host_id() -> str:
    """Return 16 hex digits that are the same at each start on this host."""
    try:
        machine = Path("/etc/machine-id").read_text(encoding="ascii").strip()
    except OSError:
        machine = ""
    return hashlib.sha256(f"{machine} {host_name()}".encode()).hexdigest()[:16]


def process_started_at() -> datetime:
    """Return the start time of this process, which with its pid identifies it."""
    return datetime.fromtimestamp(psutil.Process(os.getpid()).create_time(), UTC)


def is_process(pid: int, started_at: datetime | None) -> bool:
    """Return whether a process of this host has this pid and, if known, this start time."""
    try:
        begun = datetime.fromtimestamp(psutil.Process(pid).create_time(), UTC)
    except psutil.NoSuchProcess:
        return False
    except psutil.AccessDenied:
        return True
    return started_at is None or abs(begun - started_at) < _CLOCK_SLACK


def interfaces() -> dict[str, frozenset[str]]:
    """Return the current interfaces: name → IP and MAC addresses."""
    return {
        name: frozenset(address.address for address in addresses)
        for name, addresses in psutil.net_if_addrs().items()
    }


def container_bridge() -> str:
    """Return the address of the engine's own bridge, empty without one.

    Containers reach this host there as `host.docker.internal`. Other bridges (`br-…`) may belong to
    an office network.
    """
    for address in psutil.net_if_addrs().get(_ENGINE_BRIDGE, ()):
        if address.family == socket.AF_INET:
            return address.address
    return ""
