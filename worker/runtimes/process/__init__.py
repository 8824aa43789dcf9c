"""Steps as processes of this host: the runtime `process`."""

from __future__ import annotations

from worker.domain.runtime import RuntimePlugin, runtimes

PLUGIN = runtimes.register("process")(
    RuntimePlugin(
        summary="child processes of this host, for machines without a container runtime",
        title="Local processes",
        isolates=False,
        runs_images=False,
        implementation="worker.runtimes.process.runtime:ProcessRuntime",
    )
)
