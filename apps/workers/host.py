"""Host and process, as others can recognize them later."""

from __future__ import annotations

import hashlib
import os
import socket
from datetime import UTC, datetime
from pathlib import Path

import psutil


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


def container_bridges() -> tuple[str, ...]:
    """Where containers reach this host: the addresses of the bridges `docker0` and `br-…`."""
    return tuple(
        address.address
        for name, addresses in psutil.net_if_addrs().items()
        if name == "docker0" or name.startswith("br-")
        for address in addresses
        if address.family == socket.AF_INET
    )
