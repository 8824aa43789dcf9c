"""Which supervisors a runner is: one for the runtime of this host, one for each other engine.

Each has a registration of its own, so that a backend is available when its own engine answers.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from apps.platform_settings.api import Backend, backends, pull_credentials
from apps.system.api import installation_id
from apps.workers import conf, host
from apps.workers.domain.runtime import (
    PullCredentials,
    Runtime,
    RuntimeOptions,
    RuntimeUnusable,
    runtimes,
)
from kernel import ids

log = logging.getLogger("partita.workers")
_CONTAINERS: Final = "docker"
_ID_LIMIT: Final = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class Post:
    """One supervisor: its name, what it serves, its folder, and the runtime it drives."""

    agent_id: str
    backends: tuple[str, ...]
    state_dir: Path
    runtime: Runtime


def agent_id(backend_id: str = "") -> str:
    """Of the supervisor for this host's runtime, or for one backend elsewhere."""
    words = ("runner", host.host_name(), backend_id)
    return ids.shortened(":".join(filter(None, words)), limit=_ID_LIMIT)


def posts(runtime_name: str) -> tuple[Post, ...]:
    """One for the host, whatever it serves, and those of the other engines that can be set up.

    Raises UnknownPlugin, listing the known names.
    """
    local = [each for each in backends() if each.kind == "local"]
    elsewhere = [each for each in local if is_elsewhere(each, runtime_name)]
    here = tuple(each.backend_id for each in local if each not in elsewhere)
    home = Post(
        agent_id=agent_id(),
        backends=here,
        state_dir=conf.state_dir(),
        runtime=make_runtime(runtime_name),
    )
    return (home, *_posts_elsewhere(elsewhere))


def is_elsewhere(backend: Backend, runtime_name: str) -> bool:
    """Whether it has an engine of its own; a socket counts where steps are containers at all."""
    has_socket = bool(backend.docker_socket) and runtime_name == _CONTAINERS
    return backend.type == "remote-docker" or has_socket


def make_runtime(name: str) -> Runtime:
    """The one of this host. Raises UnknownPlugin, listing the known names."""
    return runtimes[name](_options(conf.state_dir()))


def credentials_of(image: str) -> PullCredentials | None:
    """As the platform settings have them now."""
    if (found := pull_credentials(image)) is None:
        return None
    return PullCredentials(host=found.host, username=found.username, secret=found.secret)


def _posts_elsewhere(elsewhere: Sequence[Backend]) -> list[Post]:
    """Without those whose settings name no engine: they stay unavailable, the others do not."""
    found = []
    for backend in elsewhere:
        try:
            found.append(_post(backend))
        except RuntimeUnusable as error:
            log.warning("the backend %s cannot be served: %s", backend.backend_id, error)
    return found


def _post(backend: Backend) -> Post:
    folder = conf.state_dir() / "backends" / backend.backend_id
    return Post(
        agent_id=agent_id(backend.backend_id),
        backends=(backend.backend_id,),
        state_dir=folder,
        runtime=runtimes[_CONTAINERS](_options(folder, backend)),
    )


def _options(state_dir: Path, backend: Backend | None = None) -> RuntimeOptions:
    is_remote = backend is not None and backend.type == "remote-docker"
    address = (backend.host_url if is_remote else backend.docker_socket) if backend else ""
    return RuntimeOptions(
        state_dir=state_dir,
        installation_id=installation_id(),
        pull_policy=conf.pull_policy(),
        helper_image=conf.init_image(),
        credentials=credentials_of,
        address=address,
        is_remote=is_remote,
        certificate=backend.tls_cert if backend and is_remote else "",
        key=backend.tls_key if backend and is_remote else "",
    )
