"""Host and process, as others can recognize them later."""

from __future__ import annotations

import hashlib
import os
import socket
from datetime import UTC, datetime
from pathlib import Path

import psutil

_ENGINE_BRIDGE = "docker0"


def host_name() -> str:
    return socket.gethostname()


def host_id() -> str:
    """The same at each start on this host; 16 hex digits."""
    try:
        machine = Path("/etc/machine-id").read_text(encoding="ascii").strip()
    except OSError:
        machine = ""
    return hashlib.sha256(f"{machine} {host_name()}".encode()).hexdigest()[:16]


def process_started_at() -> datetime:
    """With the pid it proves which process is meant."""
    return datetime.fromtimestamp(psutil.Process(os.getpid()).create_time(), UTC)


def interfaces() -> dict[str, frozenset[str]]:
    """Name → IP and MAC addresses, now."""
    return {
        name: frozenset(address.address for address in addresses)
        for name, addresses in psutil.net_if_addrs().items()
    }


def container_bridge() -> str:
    """Where containers reach this host as `host.docker.internal`: the engine's own bridge.

    Empty without one. Other bridges (`br-…`) may be a network of the office, or of strangers.
    """
    for address in psutil.net_if_addrs().get(_ENGINE_BRIDGE, ()):
        if address.family == socket.AF_INET:
            return address.address
    return ""
