"""The supervisors of a runner: one for the runtime of this host, one for each other engine.

Each has its own registration, so that a backend is available when its own engine answers.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from apps.operations.api import installation_id
from apps.platform_settings.api import Backend, backends, pull_credentials
from apps.workers import conf
from kernel import ids
from worker import host
from worker.domain.cluster_options import ClusterOptions
from worker.domain.runtime import Runtime, RuntimeOptions, RuntimeUnusable
from worker.runtimes import runtimes


def choose_local_runtime() -> tuple[str, str]:
    """Return the runtime to use, and why it is not the configured one (empty if it is)."""
    configured = conf.local_runtime()
    if asyncio.run(_answers(make_runtime(configured))):
        return configured, ""
    return "process", (
        f"the container runtime {configured} does not answer (is it running? DOCKER_HOST names "
        "another): steps run as processes of this host, not isolated; those that need an image fail"
    )


async def _answers(runtime: Runtime) -> bool:
    try:
        return await runtime.ping()
    finally:
        await runtime.close()


log = logging.getLogger("partita.workers")
_CONTAINERS: Final = "docker"
_CLUSTER: Final = "kubernetes"
_ID_LIMIT: Final = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class SupervisorSpec:
    """One supervisor as the settings describe it; `engine`: a backend with its own engine."""

    agent_id: str
    backends: tuple[str, ...]
    engine: Backend | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SupervisorSetup:
    """One supervisor: its spec, its folder and its runtime."""

    spec: SupervisorSpec
    state_dir: Path
    runtime: Runtime

    @property
    def agent_id(self) -> str:
        return self.spec.agent_id

    @property
    def backends(self) -> tuple[str, ...]:
        return self.spec.backends


def agent_id(backend_id: str = "") -> str:
    """Return the id of the supervisor for this host, or for the engine of one backend."""
    words = ("runner", host.host_name(), backend_id)
    return ids.shorten(":".join(filter(None, words)), limit=_ID_LIMIT)


def supervisor_specs(runtime_name: str) -> tuple[SupervisorSpec, ...]:
    """Return the current specs: one for this host, even without backends, and one per engine."""
    ours = [each for each in backends() if each.kind != "remote-agent"]
    elsewhere = [each for each in ours if is_elsewhere(each, runtime_name)]
    here = tuple(each.backend_id for each in ours if each not in elsewhere)
    return (
        SupervisorSpec(agent_id=agent_id(), backends=here),
        *(
            SupervisorSpec(
                agent_id=agent_id(each.backend_id),
                backends=(each.backend_id,),
                engine=replace(each, label="", description="", default=False, routing_tags=()),
            )
            for each in elsewhere
        ),
    )


def set_up_supervisors(runtime_name: str) -> tuple[SupervisorSetup, ...]:
    """Set up the supervisors with a usable engine. Raises UnknownPlugin."""
    made = (set_up_supervisor(spec, runtime_name) for spec in supervisor_specs(runtime_name))
    return tuple(setup for setup in made if setup is not None)


def set_up_supervisor(spec: SupervisorSpec, runtime_name: str) -> SupervisorSetup | None:
    """Set up a supervisor; log and return None if its engine's settings are unusable."""
    if spec.engine is None:
        return SupervisorSetup(
            spec=spec, state_dir=conf.state_dir(), runtime=make_runtime(runtime_name)
        )
    folder = conf.state_dir() / "backends" / spec.engine.backend_id
    try:
        name = _CLUSTER if spec.engine.type == _CLUSTER else _CONTAINERS
        runtime = runtimes[name].open(_options(folder, spec.engine))
    except RuntimeUnusable as error:
        log.warning("the backend %s cannot be served: %s", spec.engine.backend_id, error)
        return None
    return SupervisorSetup(spec=spec, state_dir=folder, runtime=runtime)


def is_elsewhere(backend: Backend, runtime_name: str) -> bool:
    """Return True if the backend has its own engine; a socket counts only for containers."""
    has_socket = bool(backend.docker_socket) and runtime_name == _CONTAINERS
    return backend.type in ("remote-docker", _CLUSTER) or has_socket


def make_runtime(name: str) -> Runtime:
    """Return a runtime of this host. Raises UnknownPlugin, listing the known names."""
    return runtimes[name].open(_options(conf.state_dir()))


def _options(state_dir: Path, backend: Backend | None = None) -> RuntimeOptions:
    is_remote = backend is not None and backend.type == "remote-docker"
    address = (backend.host_url if is_remote else backend.docker_socket) if backend else ""
    return RuntimeOptions(
        state_dir=state_dir,
        installation_id=installation_id(),
        pull_policy=conf.pull_policy(),
        helper_image=conf.init_image(),
        credentials=pull_credentials,
        address=address,
        is_remote=is_remote,
        certificate=backend.tls_cert if backend and is_remote else "",
        key=backend.tls_key if backend and is_remote else "",
        cluster=cluster_options(backend),
    )


def cluster_options(backend: Backend | None) -> ClusterOptions:
    """Return how to reach the cluster of a backend; without one, that of the environment."""
    if backend is None or backend.type != _CLUSTER:
        return ClusterOptions(kubeconfig=conf.kubeconfig())
    return ClusterOptions(
        kubeconfig=backend.kubeconfig_path,
        context=backend.kubeconfig_context,
        server=backend.host_url,
        token=backend.service_account_token,
        authority=backend.tls_cert,
        namespace=backend.target_namespace,
        claim=backend.shared_claim,
    )
