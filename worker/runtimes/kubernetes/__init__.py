"""Steps as pods of a Kubernetes cluster: the runtime `kubernetes`."""

from __future__ import annotations

from worker.domain.runtime import RuntimePlugin, runtimes

PLUGIN = runtimes.register("kubernetes")(
    RuntimePlugin(
        summary="pods of a Kubernetes cluster",
        title="Kubernetes",
        implementation="worker.runtimes.kubernetes.runtime:KubernetesRuntime",
    )
)
