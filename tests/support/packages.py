"""The Debian packages behind the tests: installed as root, otherwise named."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

# program that must be there -> Debian package that brings it, the better one first
PROGRAMS = {
    "zsh": "zsh",
    "fish": "fish",
    "redis-server": "redis-server",
    "dockerd": "docker.io",
    "iptables": "iptables",
    "chromium": "chromium-headless-shell | chromium",
    "initdb": "postgresql",
    "docker-registry": "docker-registry",
    "prometheus": "prometheus",
    "jq": "jq",
    "dbus-daemon": "dbus",
    "gnome-keyring-daemon": "gnome-keyring",
}
BENCH_PROGRAMS = {"wrk": "wrk", "h2load": "nghttp2-client"}


def program(name: str) -> str | None:
    """The path of a server's program; PostgreSQL keeps its own outside PATH.

    Chromium's shell without windows is preferred: the whole browser takes twice its CPU.
    """
    if name == "chromium" and (shell := shutil.which("chromium-headless-shell")):
        return shell
    candidates = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    return str(candidates[-1]) if candidates else shutil.which(name)


def missing(programs: Mapping[str, str] = PROGRAMS) -> list[str]:
    absent = {package for name, package in programs.items() if program(name) is None}
    if not Path("/bin/busybox").exists() and shutil.which("dpkg-deb") is None:
        absent.add("dpkg")
    return sorted(absent)


def install_missing(programs: Mapping[str, str] = PROGRAMS) -> list[str]:
    """Install what is missing where that is possible; returns the packages still missing."""
    if not (absent := missing(programs)):
        return []
    if os.geteuid() == 0 and shutil.which("apt-get"):
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        print(f"installing Debian packages: {', '.join(absent)}", flush=True)
        _run(["apt-get", "update", "-qq"], environment)
        chosen = [_known(each.split(" | "), environment) for each in absent]
        _run(["apt-get", "install", "-y", "-qq", "--no-install-recommends", *chosen], environment)
    return missing(programs)


def _known(packages: Sequence[str], environment: Mapping[str, str]) -> str:
    """The first of the packages that this release has, or the last."""
    known = (each for each in packages if _run(["apt-cache", "show", each], environment) == 0)
    return next(known, packages[-1])


def _run(command: Sequence[str], environment: Mapping[str, str]) -> int:
    return subprocess.run(
        command, env=environment, check=False, stdout=subprocess.DEVNULL
    ).returncode
