"""Readiness probes and the choice of a service's probe (reference: control-plane 7.4)."""

from __future__ import annotations

from dataclasses import dataclass

from worker.domain.step_spec import Ready, StepNode


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpProbe:
    path: str
    port: int
    statuses: frozenset[int] = frozenset()

    @property
    def target(self) -> str:
        """Return the request path, with the leading slash that a declared path may lack."""
        return f"/{self.path.removeprefix('/')}"

    def passes(self, status: int) -> bool:
        return status in self.statuses if self.statuses else 200 <= status < 400  # noqa: PLR2004


@dataclass(frozen=True, slots=True, kw_only=True)
class TcpProbe:
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LogProbe:
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandProbe:
    argv: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageProbe:
    """The image's own HEALTHCHECK."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StillRunning:
    """No probe is declared: the service is ready once it has run for `for_ms`."""

    for_ms: int = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeResponse:
    """The result of an http or tcp probe: a status, a connection (neither), or the problem."""

    status: int | None = None
    problem: str = ""

    def missing(self, probe: HttpProbe | TcpProbe) -> str:
        """Return why the probe does not pass; empty if it passes."""
        if self.problem or isinstance(probe, TcpProbe):
            return self.problem
        if self.status is not None and probe.passes(self.status):
            return ""
        return f"{probe.path} on port {probe.port} answered {self.status}"


Probe = HttpProbe | TcpProbe | LogProbe | CommandProbe | ImageProbe | StillRunning
NO_PROBE_MESSAGE = "running, no readiness probe declared"


def choose_probe(node: StepNode, *, image_has_health_check: bool) -> Probe:
    """Raises ValueError for an http probe of a node without any port."""
    if node.ready:
        return _probe_of(node, node.ready)
    if first := first_tcp_port(node):
        return TcpProbe(port=first)
    return ImageProbe() if image_has_health_check else StillRunning()


def first_tcp_port(node: StepNode) -> int | None:
    return next((port.number for port in node.ports if port.protocol == "tcp"), None)


def _probe_of(node: StepNode, ready: Ready) -> Probe:
    if ready.log is not None:
        return LogProbe(text=ready.log)
    if ready.command:
        return CommandProbe(argv=ready.command)
    if ready.tcp is not None:
        return TcpProbe(port=ready.tcp)
    port = ready.port or first_tcp_port(node)
    if ready.http is None or port is None:
        raise ValueError(f"{node.id}: an http probe needs `port` or a tcp port in `ports`")
    return HttpProbe(path=ready.http, port=port, statuses=ready.statuses)
