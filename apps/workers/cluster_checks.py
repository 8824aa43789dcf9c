"""What the clusters of backends lack for running steps: for the command `check_cluster`."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from apps.platform_settings.api import backends
from apps.workers import conf
from apps.workers.supervisor_setup import cluster_options
from kernel.errors import PlatformError
from worker.domain.cluster_options import ClusterOptions
from worker.domain.runtime import RuntimeOptions
from worker.runtimes.kubernetes.cluster_check import Check, check_cluster

KIND = "kubernetes"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckTarget:
    """A cluster to check; `backend`: whose it is, empty for one that options name."""

    cluster: ClusterOptions
    backend: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterReport:
    """What was checked of a target."""

    target: CheckTarget
    checks: tuple[Check, ...]

    @property
    def was_reached(self) -> bool:
        return any(each.name == "api" and each.state == "ok" for each in self.checks)

    @property
    def lacks_something(self) -> bool:
        return any(each.state == "missing" for each in self.checks)


def targets_of_backends(backend_id: str = "") -> tuple[CheckTarget, ...]:
    """Return the clusters of the settings' backends, or of one. Raises PlatformError."""
    known = [each for each in backends() if each.type == KIND]
    found = [each for each in known if backend_id in ("", each.backend_id)]
    if found:
        return tuple(
            CheckTarget(backend=each.backend_id, cluster=cluster_options(each)) for each in found
        )
    names = ", ".join(each.backend_id for each in known)
    hint = f"those are {names}" if names else "name a cluster: --kubeconfig FILE or --in-cluster"
    wanted = f"backend {backend_id!r}" if backend_id else "backend"
    raise PlatformError(
        f"the settings have no {wanted} of type {KIND}; {hint}", code="backend_unknown"
    )


def check_targets(
    targets: Sequence[CheckTarget], *, pulls: Sequence[str]
) -> tuple[ClusterReport, ...]:
    return asyncio.run(_check_all(targets, pulls))


async def _check_all(
    targets: Sequence[CheckTarget], pulls: Sequence[str]
) -> tuple[ClusterReport, ...]:
    return tuple([await _check_one(each, pulls) for each in targets])


async def _check_one(target: CheckTarget, pulls: Sequence[str]) -> ClusterReport:
    options = RuntimeOptions(
        state_dir=conf.state_dir(),
        installation_id="",  # no unit is made or looked for
        pull_policy=conf.pull_policy(),
        helper_image=conf.init_image(),
        cluster=target.cluster,
    )
    checks = [each async for each in check_cluster(options, pulls=pulls)]
    return ClusterReport(target=target, checks=tuple(checks))
