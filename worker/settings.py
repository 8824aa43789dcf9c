"""The settings of a standalone worker."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSettings:
    """A standalone worker's AGENT_ settings, and the kinds of steps that it claims.

    `labels`: key → value, or empty. `kubeconfig`: of the runtime `kubernetes`; empty in a pod.
    `starts_ahead`: units of steps that may come next.

    (reference: control-plane 20)
    """

    agent_id: str
    name: str
    public_url: str
    control_plane_url: str
    backends: tuple[str, ...]
    labels: dict[str, str]
    concurrency: int
    step_kinds: tuple[str, ...]
    drain_s: float
    host: str
    port: int
    secret: str = field(repr=False)
    kubeconfig: str = ""
    starts_ahead: int = 0
