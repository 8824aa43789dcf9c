"""The steps of a container's start: create it, fill it, connect it, start it, rename it, remove it.

(reference: control-plane 14.3)
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Mapping, Sequence
from typing import Any, Final

import docker
from docker.types import EndpointConfig, HostConfig, LogConfig, Mount

from worker.domain import ownership
from worker.domain.archives import step_archive
from worker.domain.launch import GATEWAY_HOST
from worker.domain.runtime import (
    ARTIFACTS,
    STEP_DIRECTORY,
    WORKSPACE,
    Launch,
    StartFailed,
    Unit,
    UnitState,
)
from worker.domain.step_spec import Port
from worker.domain.suite_files import KeptArchives
from worker.runtimes.docker.engine import (
    APIError,
    ContainerEngine,
    RuntimeRefused,
    explanation,
    inspect_container,
    unit_of,
)
from worker.runtimes.docker.images import Images
from worker.runtimes.docker.run_environment import RunEnvironment

log = logging.getLogger("partita.workers")
CONFLICT: Final = 409
_NO_CHANGES: Final[Mapping[str, Any]] = {}
# json-file keeps the order at every read; named here because a daemon may be set to rotate.
LOG_CONFIG: Final = LogConfig(type="json-file", config={"max-size": "4g", "max-file": "1"})


class Containers:
    """The containers of one engine. `publishes`: their ports, on loopback."""

    def __init__(
        self,
        engine: ContainerEngine,
        images: Images,
        environment: RunEnvironment,
        *,
        publishes: bool,
    ) -> None:
        self.engine = engine
        self.images = images
        self.environment = environment
        self._publishes = publishes
        self._archives = KeptArchives()

    async def create(
        self, launch: Launch, name: str, changes: Mapping[str, Any] = _NO_CHANGES
    ) -> Unit:
        """Create the container of a launch under a name. Raises APIError.

        `changes` replace arguments of `create_container`.
        """
        directory = (await self.images.configuration(launch.image)).working_directory

        def create(client: Any) -> Any:
            options = container_options(
                launch, client, publishes=self._publishes, image_directory=directory
            )
            return client.create_container(**{**options, "name": name, **changes})

        created = await self.engine.call(create)
        return Unit(id=str(created["Id"]), name=name, state=UnitState.CREATED, labels=launch.labels)

    async def create_anew(
        self, launch: Launch, name: str, changes: Mapping[str, Any] = _NO_CHANGES
    ) -> Unit:
        """Create a container as `create` does, instead of one that an earlier process left."""
        try:
            return await self.create(launch, name, changes)
        except APIError as error:
            if error.status_code != CONFLICT:
                raise
        found = await self.inspect(name)
        if ownership.is_owned(found.labels, launch.labels[ownership.INSTALLATION]):
            await self.remove(found.id)
        return await self.create(launch, name, changes)

    async def put_files(self, launch: Launch, unit_id: str) -> None:
        """Put the files into a created container, and connect it to further networks."""
        content = await launch.workspace.fetch()
        own = content if launch.step_files is None else launch.step_files
        async with self.environment.fill_once(launch, content) as is_needed:

            def put(
                client: Any,
            ) -> None:  # builds on the thread of the engine's call: it may be long
                if is_needed:
                    archive = step_archive(own, shared=content)
                else:
                    archive = self._archives.get_or_build(own, step_archive)
                client.put_archive(unit_id, "/", archive)

            await self.engine.call(put)
        for network, aliases in list(launch.networks.items())[1:]:
            await self._connect(unit_id, network, aliases)

    async def _connect(self, unit_id: str, network: str, aliases: Sequence[str]) -> None:
        try:
            await self.engine.call(
                lambda client: client.connect_container_to_network(
                    unit_id, network, aliases=list(aliases)
                )
            )
        except APIError as error:
            if "already exists" not in explanation(error):  # of a start that was interrupted
                raise

    async def start(self, unit_id: str) -> None:
        """Start a created container. Raises StartFailed, APIError."""
        try:
            await self.engine.call(lambda client: client.start(unit_id))
        except APIError as error:
            text = explanation(error)
            if "OCI runtime create failed" in text or "failed to create task" in text:
                raise StartFailed(text, 126 if "permission denied" in text else 127) from error
            raise

    async def inspect(self, name: str) -> Unit:
        """Return a container by its name or id. Raises NotFound."""
        return unit_of(await self.engine.call(inspect_container(name)))

    async def rename(self, unit_id: str, name: str) -> bool:
        """Return False if that cannot be done: somebody removed it, or the name is taken."""
        try:
            await self.engine.call(lambda client: client.rename(unit_id, name))
        except APIError as error:
            log.info("%s does not become %s: %s", unit_id[:12], name, explanation(error))
            return False
        return True

    async def remove(self, unit_id: str) -> None:
        try:
            await self.engine.call(
                lambda client: client.remove_container(unit_id, v=True, force=True)
            )
        except APIError as error:
            if error.status_code not in (404, CONFLICT):  # gone, or already being removed
                raise RuntimeRefused(explanation(error)) from error

    def configuration(self, launch: Launch) -> tuple[object, ...]:
        """Return everything that the container of a launch is created with, but its files."""
        return (
            launch.attempt,
            self.images.last_configuration(launch.image).id,
            launch.program,
            dict(launch.environment),
            launch.workspace.name,
            dict(launch.networks),
            launch.ports,
            launch.limits,
            dict(launch.run_labels),
        )


async def digest_files(launch: Launch) -> str:
    """Return the digest of the files in the directory of the step."""
    own = launch.step_files
    content = await launch.workspace.fetch() if own is None else own
    return await asyncio.to_thread(lambda: hashlib.sha256(content).hexdigest())


def container_options(
    launch: Launch, client: docker.APIClient, *, publishes: bool, image_directory: str
) -> dict[str, object]:
    """Return the arguments of `create_container`.

    `publishes`: its ports, on loopback. `image_directory`: the WORKDIR of the image, or empty.
    """
    program = launch.program
    images_choice = program.starts_in == "image-or-step" and image_directory not in ("", "/")
    starts_in_step = program.starts_in != "image" and not images_choice
    network, aliases = next(iter(launch.networks.items()))
    endpoint = EndpointConfig(client.api_version, aliases=list(aliases))
    return {
        "image": launch.image,
        "name": launch.name,
        "entrypoint": list(program.entrypoint) if program.entrypoint else None,
        "command": list(program.arguments) or None,
        "working_dir": STEP_DIRECTORY if starts_in_step else None,
        "environment": dict(launch.environment),
        "ports": [(port.number, port.protocol) for port in launch.ports],
        "labels": {**launch.labels, ownership.MEMORY_LIMIT: str(launch.limits.memory_bytes)},
        "host_config": _host_config(launch, client, network, launch.ports if publishes else ()),
        "networking_config": {"EndpointsConfig": {network: endpoint}},
    }


def _host_config(
    launch: Launch, client: docker.APIClient, network: str, published: Sequence[Port]
) -> HostConfig:
    limits = launch.limits
    return client.create_host_config(
        network_mode=network,
        init=True,  # a PID 1 that is a shell would ignore SIGTERM
        log_config=LOG_CONFIG,
        mounts=[
            Mount(
                WORKSPACE,
                launch.workspace.name,
                type="volume",
                labels=dict(launch.run_labels),  # if it was removed, the engine makes it anew
                no_copy=True,
            ),
            Mount(ARTIFACTS, None, type="volume", labels=dict(launch.labels), no_copy=True),
        ],
        port_bindings={str(port): ("127.0.0.1", None) for port in published},
        extra_hosts={GATEWAY_HOST: "host-gateway"},
        mem_limit=limits.memory_bytes,
        memswap_limit=limits.memory_bytes,  # memory and swap together: no swap
        nano_cpus=int(limits.cpus * 10**9),
        pids_limit=limits.pids,
        security_opt=["no-new-privileges"],
        cap_drop=[] if launch.kind == "service" else ["ALL"],
    )
