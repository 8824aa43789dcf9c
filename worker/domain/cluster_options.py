"""How a runtime reaches a Kubernetes cluster, and what its pods get there."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterOptions:
    """`kubeconfig` (with `context`) or `server` with `token`; neither: this pod's own account.

    `authority`: PEM text of the CA of `server`. `namespace`: empty for that of the context or of
    this pod, else `default`. `claim`: of a volume that all nodes mount, for shared directories.
    """

    kubeconfig: str = ""
    context: str = ""
    server: str = ""
    token: str = field(default="", repr=False)
    authority: str = ""
    namespace: str = ""
    claim: str = ""


NO_CLUSTER: Final = ClusterOptions()
