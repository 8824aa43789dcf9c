"""Documents of environments (reference: control-plane 17), and a fake of their API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from apps.accounts.api import Principal
from kernel.errors import NotFound, PlatformError

RUN_ID = "run-3f9a0c1be77d"
LOOKED_AT = "2026-01-02T03:10:00.000Z"
SINCE = "2026-01-02T03:08:00.000Z"
STARTED = "2026-01-02T03:04:05.123Z"


class SandboxNotFound(NotFound):
    code = "sandbox_not_found"


def usage(cpu_percent: float = 12.5, memory_bytes: int = 34 * 2**20) -> Mapping[str, float]:
    return {
        "cpuPercent": cpu_percent,
        "memoryBytes": memory_bytes,
        "memoryLimitBytes": 0,
        "memoryPercent": 0.0,
    }


def container(name: str = "shop-store", **facts: Any) -> Mapping[str, Any]:
    return {
        "id": f"id-of-{name}",
        "name": name,
        "image": "redis:7-alpine",
        "state": "running",
        "status": "Up 5 minutes",
        "ports": ["8080 -> 80/tcp"],
        "createdAt": STARTED,
        **facts,
    }


def network(name: str = "shop-net") -> Mapping[str, str]:
    return {"id": f"id-of-{name}", "name": name, "driver": "bridge", "scope": "local"}


def volume(name: str = "shop-data") -> Mapping[str, str]:
    return {"name": name, "driver": "local", "mountpoint": f"/volumes/{name}"}


def environment(status: str = "Running", **facts: Any) -> Mapping[str, Any]:
    return {
        "sandboxId": RUN_ID,
        "runId": RUN_ID,
        "suite": "Shop",
        "owner": "Grace Hopper",
        "profile": "default.yaml",
        "status": status,
        "summary": "1 containers, 1 networks, 1 volumes",
        "orchestratorState": "alive",
        "isZombie": status == "Zombie",
        "canReap": True,
        "resourceUsage": usage(),
        "containers": [container()],
        "networks": [network()],
        "volumes": [volume()],
        "warnings": [],
        "startedAt": STARTED,
        "executionStatus": "Booting",
        **facts,
    }


def zombie(**facts: Any) -> Mapping[str, Any]:
    return environment(
        "Zombie",
        **{
            "executionStatus": "Failed",
            "orchestratorState": "dead",
            "zombieReason": "process 4711 of runner-1 is gone, silent for 3m",
            "zombieSince": SINCE,
        }
        | facts,
    )


@dataclass
class FakeEnvironments:
    """`environments.api` as far as the page reads it; `reaped` is what it was asked to remove."""

    sandboxes: list[Mapping[str, Any]] = field(default_factory=list)
    available: bool = True
    reaps: list[Mapping[str, Any]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    refused: Mapping[str, PlatformError] = field(default_factory=dict)  # by id, or "all"
    reaped: list[str] = field(default_factory=list)
    tried: list[str] = field(default_factory=list)  # dry runs

    def snapshot(self, _principal: Principal, *, status: str = "", q: str = "") -> Any:
        found = [each for each in self.sandboxes if status in ("", each["status"])]
        found = [each for each in found if q in each["suite"]]
        return {
            "containerRuntimeAvailable": self.available,
            "updatedAt": LOOKED_AT,
            "summary": self._summary(),
            "sandboxes": found,
            "reaps": self.reaps,
            "warnings": self.warnings,
        }

    def reap(self, _principal: Principal, sandbox_id: str, *, dry_run: bool = False) -> Any:
        if sandbox_id in self.refused:
            raise self.refused[sandbox_id]
        found = [each for each in self.sandboxes if each["sandboxId"] == sandbox_id]
        if not found:
            raise SandboxNotFound("environment not found")
        return self._remove(sandbox_id, found, dry_run=dry_run)

    def reap_all(
        self, _principal: Principal, *, dry_run: bool = False, only_zombies: bool = False
    ) -> Any:
        if "all" in self.refused:
            raise self.refused["all"]
        found = [each for each in self.sandboxes if each["isZombie"] or not only_zombies]
        return self._remove("zombies" if only_zombies else "all", found, dry_run=dry_run)

    def environment_of_run(self, _principal: Principal, run_id: str) -> Any:
        return next((each for each in self.sandboxes if each["runId"] == run_id), None)

    def _remove(self, target: str, found: Sequence[Mapping[str, Any]], *, dry_run: bool) -> Any:
        (self.tried if dry_run else self.reaped).append(target)
        return {
            "scope": "sandbox",
            "target": target,
            "removedContainers": sum(len(each["containers"]) for each in found),
            "removedNetworks": sum(len(each["networks"]) for each in found),
            "removedVolumes": sum(len(each["volumes"]) for each in found),
            "warnings": self._plan(found) if dry_run else self.warnings,
            "dryRun": dry_run,
        }

    def _plan(self, found: Sequence[Mapping[str, Any]]) -> list[str]:
        return [
            f"{each['runId']} is {each['executionStatus']}: it is canceled first"
            for each in found
            if each.get("executionStatus") == "Booting"
        ]

    def _summary(self) -> Mapping[str, float]:
        return {
            "activeSandboxes": sum(each["status"] == "Running" for each in self.sandboxes),
            "zombieSandboxes": sum(each["isZombie"] for each in self.sandboxes),
            "containers": sum(len(each["containers"]) for each in self.sandboxes),
            "networks": sum(len(each["networks"]) for each in self.sandboxes),
            "volumes": sum(len(each["volumes"]) for each in self.sandboxes),
            "totalCpuPercent": 37.4,
            "totalMemoryBytes": 3 * 2**30,
        }
