"""The arguments that create a container for a launch (reference: control-plane 14.3)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import docker
from docker.types import EndpointConfig, HostConfig, LogConfig, Mount

from worker.domain import ownership
from worker.domain.launch import GATEWAY_HOST
from worker.domain.runtime import ARTIFACTS, STEP_DIRECTORY, WORKSPACE, Launch
from worker.domain.step_spec import Port

# json-file keeps the order at every read; named here because a daemon may be set to rotate.
LOG_CONFIG: Final = LogConfig(type="json-file", config={"max-size": "4g", "max-file": "1"})


def container(
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
