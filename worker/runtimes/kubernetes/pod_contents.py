"""What the pod of a launch is filled with: files, and the names of the other units of its run."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Mapping
from dataclasses import dataclass

from worker.domain import ownership
from worker.domain.archives import unit_archive
from worker.domain.launch import GATEWAY_HOST
from worker.domain.runtime import Launch
from worker.runtimes.kubernetes.objects import Pod
from worker.runtimes.kubernetes.pod_spec import NETWORKS
from worker.runtimes.kubernetes.resources import ClusterResources
from worker.runtimes.kubernetes.shared_directory import SharedDirectories


@dataclass(frozen=True, slots=True, kw_only=True)
class PodContents:
    """`content` (tar+gzip) are the suite's files, `own` those of the step's directory.

    `changes` (tar+gzip each): what ended steps wrote to the shared directory, the oldest first.
    `hosts`: name → address; `services`: those of services and of this host, on which a program
    may rely.
    """

    content: bytes
    own: bytes
    changes: tuple[bytes, ...]
    hosts: Mapping[str, str]
    services: Mapping[str, str]

    async def archive(self) -> bytes:
        """Return all files as one tar+gzip for `/`."""
        return await asyncio.to_thread(unit_archive, self.content, self.own, self.changes)

    def changes_since(self, earlier: PodContents) -> tuple[bytes, ...] | None:
        """Return what a pod with the earlier contents lacks; None if it cannot be completed."""
        count = len(earlier.changes)
        are_same = (self.content, self.own, self.services, self.changes[:count]) == (
            earlier.content, earlier.own, earlier.services, earlier.changes,
        )  # fmt: skip
        return self.changes[count:] if are_same else None


class ContentReader:
    """Reads what a pod is filled with."""

    def __init__(
        self, api_host: str, resources: ClusterResources, shared: SharedDirectories
    ) -> None:
        self._api_host = api_host
        self._resources = resources
        self.shared = shared

    async def read(self, launch: Launch) -> PodContents:
        content, changes, pods, address = await asyncio.gather(
            launch.workspace.fetch(),
            self.shared.changes(launch.run_id, launch.workspace.name),
            self._resources.pods(**{ownership.RUN_ID: launch.run_id}),
            asyncio.to_thread(_own_address, self._api_host),
        )
        others = [
            pod
            for pod in pods
            if pod.status.pod_ip and not pod.is_going and pod.name != launch.name
        ]
        own_host = {GATEWAY_HOST: address} if address else {}
        services = [
            pod for pod in others if pod.metadata.annotations.get(ownership.STEP_KIND) == "service"
        ]
        return PodContents(
            content=content,
            own=content if launch.step_files is None else launch.step_files,
            changes=tuple(changes),
            hosts=_hosts(launch, others) | own_host,
            services=_hosts(launch, services) | own_host,
        )


def _hosts(launch: Launch, pods: list[Pod]) -> dict[str, str]:
    """Return the names of the pods in the networks of the launch."""
    return {
        name: pod.status.pod_ip
        for pod in pods
        for network, names in _networks(pod).items()
        if network in launch.networks
        for name in names
    }


def _networks(pod: Pod) -> Mapping[str, list[str]]:
    found: Mapping[str, list[str]] = json.loads(pod.metadata.annotations.get(NETWORKS, "{}"))
    return found


def _own_address(host: str) -> str:
    """Return this host's address on the way to the cluster; empty if there is no way."""
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as way:
            way.connect((host, 9))
            return str(way.getsockname()[0])
    except OSError:
        return ""
