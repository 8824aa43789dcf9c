"""Containers, networks and volumes with labels of ours, or nearly, on a real Docker engine."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass, field

KINDS = ("container", "network", "volume")


@dataclass
class LabeledResources:
    """Creates resources by the `docker` program; `remove` takes what is left of them."""

    docker_host: str
    prefix: str
    made: dict[str, str] = field(default_factory=dict)  # name → kind

    def docker(self, *words: str) -> str:
        command = ["docker", "-H", self.docker_host, *words]
        done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=180)
        return done.stdout.strip()

    def create(self, kind: str, name: str, labels: dict[str, str]) -> str:
        """Create one and return its name; a container runs until it is killed."""
        full = f"{self.prefix}-{name}"
        flags = [f"--label={key}={value}" for key, value in labels.items()]
        if kind == "container":
            self.docker("run", "-d", "--name", full, *flags, "busybox:1.36", "sleep", "3600")
        else:
            self.docker(kind, "create", *flags, full)
        self.made[full] = kind
        return full

    def names(self) -> set[str]:
        """The created ones that the engine still has."""
        listed: set[str] = set()
        for kind in KINDS:
            words = ["ps", "-a"] if kind == "container" else [kind, "ls"]
            shown = "{{.Names}}" if kind == "container" else "{{.Name}}"
            found = self.docker(*words, "--filter", f"name={self.prefix}", "--format", shown)
            listed |= set(found.split())
        return listed & set(self.made)

    def remove(self) -> None:
        left = self.names()
        for kind in KINDS:
            ours = [name for name in sorted(left) if self.made[name] == kind]
            if ours:
                words = ["rm", "-f", "-v"] if kind == "container" else [kind, "rm"]
                self.docker(*words, *ours)


def labels_of(installation_id: str, run_id: str, **more: str) -> dict[str, str]:
    """The labels of a run that a supervisor started which is no more."""
    named = {
        "managed": "true",
        "installation": installation_id,
        "run_id": run_id,
        "orchestrator_id": "runner:gone",
        "suite": "shop",
        "owner": "Ada",
        "profile": "",
        **more,
    }
    return {f"partita.{name}": value for name, value in named.items()}
