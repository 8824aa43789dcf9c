"""What a cluster has of its host: a network, control groups, and settings of the kernel."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from tests.support.kubernetes import config_files as config

NAMESPACE: Final = "partita-kubernetes"  # of the network
LINK: Final = "partita-k8s"  # the host's end of the way to it
CGROUPS: Final = Path("/sys/fs/cgroup")
# what a kubelet sets for the whole machine
_MACHINE_WIDE: Final = ("vm.overcommit_memory", "kernel.panic", "kernel.panic_on_oops")


def read_settings() -> list[str]:
    """Return the settings that a kubelet changes, as `write_settings` takes them."""
    read = subprocess.run(["sysctl", *_MACHINE_WIDE], check=True, capture_output=True, text=True)
    return read.stdout.replace(" ", "").split()


def write_settings(settings: list[str]) -> None:
    call("sysctl", "-q", "-w", *settings)


def make_network() -> None:
    """Make the namespace and a way to it; the host reaches pods and services by it."""
    host, node = f"{config.HOST_ADDRESS}/30", f"{config.NODE_ADDRESS}/30"
    inside = ("nsenter", f"--net=/run/netns/{NAMESPACE}")
    for words in (
        ("ip", "netns", "add", NAMESPACE),
        (*inside, "ip", "link", "set", "lo", "up"),
        *[
            ("ip", "link", "add", LINK, "type", "veth", "peer", "name", "eth0", "netns", NAMESPACE),
            ("ip", "addr", "add", host, "dev", LINK),
            ("ip", "link", "set", LINK, "up"),
            (*inside, "ip", "addr", "add", node, "dev", "eth0"),
            (*inside, "ip", "link", "set", "eth0", "up"),
            (*inside, "ip", "route", "add", "default", "via", config.HOST_ADDRESS),
        ],
        ("ip", "route", "add", config.POD_ADDRESSES, "via", config.NODE_ADDRESS),
        ("ip", "route", "add", config.SERVICE_ADDRESSES, "via", config.NODE_ADDRESS),
        (*inside, "sysctl", "-q", "-w", "net.ipv4.ip_forward=1"),
        (*inside, "sysctl", "-q", "-w", "net.bridge.bridge-nf-call-iptables=1"),
    ):
        subprocess.run(words, check=True, capture_output=True)


def remove_network() -> None:
    """Remove the namespace with whatever still runs in it."""
    found = subprocess.run(
        ["ip", "netns", "pids", NAMESPACE], capture_output=True, text=True, check=False
    )
    for pid in found.stdout.split():
        with suppress(ProcessLookupError):
            os.kill(int(pid), signal.SIGKILL)
    call("ip", "netns", "del", NAMESPACE)
    call("ip", "link", "del", LINK)


def _controllers() -> Iterator[Path]:
    """Yield the hierarchies of control groups, which a host with version 1 has many of."""
    if (CGROUPS / "cgroup.controllers").exists():
        yield CGROUPS
    else:
        yield from (each for each in CGROUPS.iterdir() if each.is_dir() and not each.is_symlink())


def make_cgroups() -> None:
    for controller in _controllers():
        (controller / config.CGROUP).mkdir(exist_ok=True)


def remove_cgroups() -> None:
    """Remove them from below; one whose last process just ended needs a moment more."""
    for _ in range(20):
        for folder in (left := _list_cgroups()):
            with suppress(OSError):
                folder.rmdir()
        if not left:
            return
        time.sleep(0.1)
    print(f"control groups were left: {_list_cgroups()}", file=sys.stderr)


def _list_cgroups() -> list[Path]:
    """Return the control groups of the cluster, the inner ones first."""
    roots = [each / config.CGROUP for each in _controllers() if (each / config.CGROUP).exists()]
    return [Path(folder) for root in roots for folder, _, _ in os.walk(root, topdown=False)]


def call(*words: str) -> None:
    """Run a command of the end, which goes on whatever it says."""
    subprocess.run(words, check=False, capture_output=True)
