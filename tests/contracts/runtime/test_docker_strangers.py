"""Containers that look like ours but are not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support import steps
from tests.support.docker_engine import docker
from worker.domain.runtime import RuntimeOptions
from worker.runtimes.docker.runtime import DockerRuntime

pytestmark = pytest.mark.docker
RUN = "run-00000000f00d"
Make = Callable[..., str]


@pytest.fixture
def make() -> Iterator[Make]:
    """Creates a container with these labels; all are removed at the end."""
    made: list[str] = []

    def create(**labels: str) -> str:
        flags = [f"--label=partita.{key}={value}" for key, value in labels.items()]
        made.append(docker("create", *flags, "busybox:1.36", "true").strip())
        return made[-1]

    yield create
    left = [container for container in made if container in docker("ps", "-aq", "--no-trunc")]
    if left:
        docker("rm", "-f", *left)


async def test_only_what_is_managed_by_this_installation_is_removed(tmp_path: Path, make: Make):
    """Invariant 15."""
    ours = make(managed="true", installation=steps.INSTALLATION, run_id=RUN)
    strangers = {
        make(managed="true", installation="another", run_id=RUN),
        make(installation=steps.INSTALLATION, run_id=RUN),
        make(run_id=RUN),
    }
    runtime = DockerRuntime(RuntimeOptions(state_dir=tmp_path, installation_id=steps.INSTALLATION))

    removed = await runtime.release(RUN, steps.owner())
    await runtime.close()

    left = set(docker("ps", "-aq", "--no-trunc").split())
    assert removed.containers == 1
    assert ours not in left
    assert strangers <= left
