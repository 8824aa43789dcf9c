"""Which runtime this host has."""

from __future__ import annotations

import asyncio

from apps.workers import conf
from apps.workers.supervisor_setup import make_runtime
from worker.domain.runtime import Runtime


def choose_local_runtime() -> tuple[str, str]:
    """The runtime to use, and why it is not the one asked for (empty when it is)."""
    wanted = conf.local_runtime()
    if asyncio.run(_answers(make_runtime(wanted))):
        return wanted, ""
    return "process", (
        f"the container runtime {wanted} does not answer (is it running? DOCKER_HOST names "
        "another): steps run as processes of this host, not isolated; those that need an image fail"
    )


async def _answers(runtime: Runtime) -> bool:
    try:
        return await runtime.ping()
    finally:
        await runtime.close()
