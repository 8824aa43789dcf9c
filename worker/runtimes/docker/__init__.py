"""Steps as Docker containers: the runtime `docker`."""

from __future__ import annotations

from worker.runtimes.docker.runtime import DockerRuntime

__all__ = ["DockerRuntime"]
