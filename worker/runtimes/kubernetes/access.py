"""From the options of a backend to its cluster and namespace."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from kernel.cluster_access import ClusterAccess, access_by_values, from_kubeconfig, in_cluster
from kernel.exec_plugin import AccessRefused
from worker.domain.cluster_options import ClusterOptions
from worker.domain.runtime import RuntimeOptions, RuntimeUnusable

_DEFAULT_NAMESPACE: Final = "default"


def open_access(options: RuntimeOptions) -> tuple[ClusterAccess, str]:
    """Return the access and the namespace. Raises RuntimeUnusable."""
    cluster = options.cluster
    try:
        access = _access(cluster)
    except AccessRefused as error:
        raise RuntimeUnusable(f"{error} ({_source(cluster)})") from error
    return access, cluster.namespace or access.namespace or _DEFAULT_NAMESPACE


def _access(cluster: ClusterOptions) -> ClusterAccess:
    if cluster.server:
        return access_by_values(cluster.server, token=cluster.token, ca_cert=cluster.authority)
    if cluster.kubeconfig:
        return from_kubeconfig(Path(cluster.kubeconfig), context=cluster.context)
    return in_cluster()


def _source(cluster: ClusterOptions) -> str:
    if cluster.server:
        return f"the address {cluster.server}"
    if cluster.kubeconfig:
        return f"the kubeconfig {cluster.kubeconfig}"
    return "the service account of this pod; set a kubeconfig or an address outside of a cluster"
