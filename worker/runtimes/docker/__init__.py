"""Steps as Docker containers; importing the package registers the runtime `docker`."""

from __future__ import annotations

from worker.runtimes.docker.runtime import DockerRuntime

__all__ = ["DockerRuntime"]
