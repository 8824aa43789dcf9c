"""Namespaces that suite.star knows and this release refuses."""

from __future__ import annotations

from apps.suites.domain.calls import NodeKind, node_kinds

_TRAFFIC = (
    "smoke", "baseline", "stress", "spike", "soak", "scalability", "step", "wave", "staged",
    "constant_throughput", "constant_pacing", "open_model",
)  # fmt: skip

node_kinds.register("traffic")(
    NodeKind(summary="load on a service", hint="use traffic.<variant>(…)", unavailable=_TRAFFIC)
)
node_kinds.register("security")(
    NodeKind(summary="a security scan", hint="run a scanner image with test.run")
)
