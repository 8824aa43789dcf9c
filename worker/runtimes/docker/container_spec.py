"""The arguments that create a container for a launch, and the archives for its files.

(reference: control-plane 14.3)
"""

from __future__ import annotations

import io
import tarfile
from collections.abc import Sequence
from typing import Any, Final

import docker
from docker.types import EndpointConfig, HostConfig, LogConfig, Mount

from worker.domain import ownership
from worker.domain.exports import SUITE_FILE_MTIME
from worker.domain.launch import GATEWAY_HOST
from worker.domain.runtime import ARTIFACTS, STEP_DIRECTORY, WORKSPACE, Launch
from worker.domain.step_spec import Port

# json-file keeps the order at every read; named here because a daemon may be set to rotate.
LOG_CONFIG: Final = LogConfig(type="json-file", config={"max-size": "4g", "max-file": "1"})


def container(
    launch: Launch, client: docker.APIClient, *, publishes: bool, image_directory: str
) -> dict[str, Any]:
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


def step_archive(content: bytes, *, shared: bytes | None = None) -> bytes:
    """Return the directories of one attempt as a tar for `/`: that with the files, and artifacts.

    `content` (tar+gzip) is the step's own; empty, it gives an empty directory. With `shared`, the
    shared directory is there too, with these files. Everything is open to every user of any image.
    Takes files and folders only, by normalized relative names; raises ValueError for other names.
    """
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as target:
        target.addfile(_folder(ARTIFACTS))
        _add_files(target, content, STEP_DIRECTORY, mtime=SUITE_FILE_MTIME)
        if shared is not None:
            _add_files(target, shared, WORKSPACE)
    return out.getvalue()


def _add_files(
    target: tarfile.TarFile, content: bytes, root: str, *, mtime: int | None = None
) -> None:
    """Add `root` and the files of a suite below it; `mtime` replaces their own times."""
    target.addfile(_folder(root))
    if not content:
        return
    folders: set[str] = set()
    with tarfile.open(fileobj=io.BytesIO(content), mode="r:gz") as source:
        for member in source:
            if member.isfile():
                for folder in _parents(member.name):
                    if folder not in folders:
                        folders.add(folder)
                        target.addfile(_folder(f"{root}/{folder}"))
                info = tarfile.TarInfo(f"{root}/{member.name}".removeprefix("/"))
                info.size, info.mode = member.size, member.mode | 0o666
                info.mtime = member.mtime if mtime is None else mtime
                target.addfile(info, source.extractfile(member))


def _parents(name: str) -> list[str]:
    parts = name.split("/")
    if name.startswith("/") or ".." in parts:
        raise ValueError(f"{name!r} is not a path inside a suite")
    return ["/".join(parts[:count]) for count in range(1, len(parts))]


def _folder(path: str) -> tarfile.TarInfo:
    info = tarfile.TarInfo(path.removeprefix("/"))
    info.type, info.mode = tarfile.DIRTYPE, 0o777
    return info
