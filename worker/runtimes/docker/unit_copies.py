"""Copies of ended units: an image of the files as they were left, and a container made from it.

Both have the labels of the run and of the shell that they are made for, so that whoever removes
the run finds them. A copy mounts the volumes of its unit by name; the unit stays as it is.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import docker

from worker.domain import ownership
from worker.domain.runtime import Unit
from worker.domain.shells import ShellRequest
from worker.runtimes.docker.engine import APIError, NotFound, explanation

_ANONYMOUS: Final = re.compile(r"[0-9a-f]{64}\Z")
# what a copy takes over of how its unit was made; ports, names and logs are the unit's alone
_HOST_SETTINGS: Final = (
    "CapAdd",
    "CapDrop",
    "ExtraHosts",
    "Init",
    "Memory",
    "MemorySwap",
    "NanoCpus",
    "NetworkMode",
    "PidsLimit",
    "ReadonlyRootfs",
    "SecurityOpt",
    "ShmSize",
    "Tmpfs",
    "Ulimits",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """How many copies there were, and why something is left."""

    copies: int = 0
    problems: tuple[str, ...] = ()


def commit(client: docker.APIClient, unit: Unit, shell_id: str) -> str:
    """Make an image of an ended unit's files, environment, user and directory; return its id.

    The unit need not be paused: nothing in it runs.
    """
    labels = ownership.copy_labels(unit.labels, shell_id)
    made = client.commit(unit.id, pause=False, conf={"Labels": labels})
    return str(made["Id"])


def create(
    client: Any,
    unit: Unit,
    request: ShellRequest,
    *,
    image: str,
    argv: Sequence[str],
    variables: Mapping[str, str],
) -> str:
    """Create the container of a copy, on the unit's networks without its names; return its id."""
    original = client.inspect_container(unit.id)
    name = ownership.copy_name(unit.labels[ownership.RUN_ID], request.shell_id)
    configuration = {
        "Image": image,
        "Entrypoint": list(argv),
        "Cmd": [],
        "Env": [*(original["Config"]["Env"] or ()), *(f"{k}={v}" for k, v in variables.items())],
        "Labels": ownership.copy_labels(unit.labels, request.shell_id),
        "Tty": True,
        "OpenStdin": True,
        "Healthcheck": {"Test": ["NONE"]},
        "HostConfig": _host_settings(original, request),
    }
    container = str(client.create_container_from_config(configuration, name)["Id"])
    own = original["HostConfig"]["NetworkMode"]
    for network in original["NetworkSettings"]["Networks"] or {}:
        if network != own:
            client.connect_container_to_network(container, network)
    return container


def _host_settings(original: Mapping[str, Any], request: ShellRequest) -> dict[str, object]:
    settings = {name: original["HostConfig"].get(name) for name in _HOST_SETTINGS}
    mounts = [
        {
            "Type": "volume",
            "Source": mount["Name"],
            "Target": mount["Destination"],
            "ReadOnly": not mount["RW"],
            "VolumeOptions": {"NoCopy": True},
        }
        for mount in original["Mounts"] or ()
        if mount["Type"] == "volume"
    ]
    return settings | {
        "Mounts": mounts,
        "LogConfig": {"Type": "none"},
        "ConsoleSize": [request.rows, request.columns],
    }


def is_copy(labels: Mapping[str, str] | None) -> bool:
    return bool((labels or {}).get(ownership.SHELL))


def remove_copies(
    client: docker.APIClient, wanted: Mapping[str, list[str]], *, keep: Collection[str] = ()
) -> Removal:
    """Kill and remove the copies with these labels, and their images.

    `keep`: shells whose copies stay. The volumes without a name that a unit had go with the last
    of unit and copy. Raises APIError if the engine does not list them.
    """
    labels = {"label": [*wanted["label"], ownership.SHELL]}
    copies = [
        each["Id"] for each in client.containers(all=True, filters=labels) if _goes(each, keep)
    ]
    problems: list[str] = []
    for container in copies:
        _try(partial(_remove_copy, client, container), problems)
    problems += remove_images(client, wanted, keep=keep)
    return Removal(copies=len(copies), problems=tuple(problems))


def remove_images(
    client: docker.APIClient, wanted: Mapping[str, list[str]], *, keep: Collection[str] = ()
) -> list[str]:
    """Remove the images of copies with these labels; return why some are left."""
    labels = {"label": [*wanted["label"], ownership.SHELL]}
    problems: list[str] = []
    for each in client.images(filters=labels):
        if _goes(each, keep):
            _try(partial(client.remove_image, each["Id"], force=True), problems)
    return problems


def _goes(found: Mapping[str, Any], keep: Collection[str]) -> bool:
    shell_id = found["Labels"][ownership.SHELL]
    return bool(shell_id) and shell_id not in keep


def _remove_copy(client: docker.APIClient, container: str) -> None:
    mounts = client.inspect_container(container)["Mounts"] or ()
    client.remove_container(container, force=True)
    for mount in mounts:
        if _ANONYMOUS.match(mount.get("Name") or ""):
            with contextlib.suppress(APIError):  # its unit still has it, as a rule
                client.remove_volume(mount["Name"])


def _try(remove: Callable[[], None], problems: list[str]) -> None:
    try:
        remove()
    except NotFound:
        return
    except APIError as error:
        if "is already in progress" not in explanation(error):
            problems.append(explanation(error))
