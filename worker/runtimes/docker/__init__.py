"""Steps as Docker containers: the runtime `docker`."""

from __future__ import annotations

from worker.domain.runtime import RuntimePlugin, runtimes

PLUGIN = runtimes.register("docker")(
    RuntimePlugin(
        summary="containers of a Docker engine; also on another host, over TLS",
        title="Local Docker",
        implementation="worker.runtimes.docker.runtime:DockerRuntime",
    )
)
