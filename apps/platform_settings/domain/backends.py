"""Backends, and the choice of one for a launch (reference: control-plane 4, 11.1)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final, Literal, Protocol

from kernel.errors import PlatformError
from kernel.registry import Registry

Kind = Literal["local", "kubernetes", "remote-agent"]
Mode = Literal["local", "remote", "hybrid"]

NOT_ISOLATED: Final = "(not isolated)"
AUTO: Final = ("", "auto")
KIND_OF_TYPE: Final[dict[str, Kind]] = {
    "local": "local",
    "remote-docker": "local",
    "kubernetes": "kubernetes",
    "remote-agent": "remote-agent",
}
_AUTOMATIC: Final[dict[Mode, frozenset[Kind]]] = {
    "local": frozenset({"local"}),
    "remote": frozenset({"kubernetes", "remote-agent"}),
    "hybrid": frozenset({"local", "kubernetes", "remote-agent"}),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """A place where steps run: an entry of `agents` in the platform settings."""

    backend_id: str
    label: str
    type: str = "local"
    description: str = ""
    enabled: bool = True
    default: bool = False
    routing_tags: tuple[str, ...] = ()
    docker_socket: str = ""
    host_url: str = ""
    tls_cert: str = field(default="", repr=False)
    tls_key: str = field(default="", repr=False)
    kubeconfig_path: str = ""
    kubeconfig_context: str = ""
    target_namespace: str = "default"
    max_concurrent_runs: int = 0  # at once; 0: any number
    max_concurrent_steps: int = 0
    service_account_token: str = field(default="", repr=False)
    shared_claim: str = ""

    @property
    def kind(self) -> Kind:
        """The kind on the wire: a remote Docker host is `local`, because our runner drives it."""
        return KIND_OF_TYPE[self.type]


BUILT_IN: Final = Backend(backend_id="local-docker", label="Local Docker", default=True)


class RuntimeLabel(Protocol):
    """What the labels of local backends say about their runtime."""

    @property
    def title(self) -> str:
        """Return the label of the built-in backend."""
        ...

    @property
    def isolates(self) -> bool:
        """Whether steps cannot reach the host; the labels of the others have a note."""
        ...


runtime_labels: Final[Registry[RuntimeLabel]] = Registry("runtime label")


def label_backend(backend: Backend, runtime: RuntimeLabel) -> Backend:
    """Return the backend with the label that its runtime gives it, if its type is `local`."""
    if backend.type != "local":
        return backend
    name = runtime.title if backend == BUILT_IN else backend.label
    return replace(backend, label=name if runtime.isolates else f"{name} {NOT_ISOLATED}")


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendState:
    """What is known of the supervisors of a backend; the times are those of the latest one."""

    available: bool = False
    waits_for: str = ""  # why it is not available
    registered_at: datetime | None = None
    last_heartbeat_at: datetime | None = None
    capabilities: tuple[str, ...] = ()


class BackendStates(Protocol):
    """Tells the states of backends: the app that knows the supervisors."""

    def __call__(self, backends: Iterable[Backend]) -> Mapping[str, BackendState]:
        """Return the states by id."""
        ...


backend_states: Final[Registry[BackendStates]] = Registry("source of backend states")


class BackendUnknown(PlatformError):
    """No enabled backend has the requested id."""

    code = "backend_unknown"


class BackendUnavailable(PlatformError):
    """No online supervisor with a working runtime serves the backend."""

    code = "backend_unavailable"


def choose(
    backends: Sequence[Backend], requested: str, *, mode: Mode, waits_for: Callable[[Backend], str]
) -> Backend:
    """Choose the requested backend, in any mode.

    For `""` and `"auto"`, choose the default if it is available, else the first available one that
    the mode allows. `waits_for` returns what a backend waits for, "" for one that is available.
    Raise BackendUnknown, BackendUnavailable, which names for each backend what it waits for.
    """
    if requested not in AUTO:
        return _explicit(backends, requested, waits_for)
    preferred = [backend for backend in backends if backend.default]
    allowed = [backend for backend in backends if backend.kind in _AUTOMATIC[mode]]
    for backend in preferred + allowed:
        if not waits_for(backend):
            return backend
    by_name = f"it is available, but mode {mode} does not choose it by itself: name it"
    reasons = [f"{each.backend_id}: {waits_for(each) or by_name}" for each in backends]
    raise BackendUnavailable(f"no backend is available. {'. '.join(reasons)}")


def _explicit(
    backends: Sequence[Backend], requested: str, waits_for: Callable[[Backend], str]
) -> Backend:
    for backend in backends:
        if backend.backend_id == requested:
            if reason := waits_for(backend):
                raise BackendUnavailable(f"backend {requested!r} is not available: {reason}")
            return backend
    known = ", ".join(backend.backend_id for backend in backends)
    raise BackendUnknown(f"there is no enabled backend {requested[:128]!r}; known: {known}")
