"""What a subsystem says about its readiness (reference: control-plane 19)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from kernel.registry import Registry


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """`detail` is shown to anybody: no secret, no address, no stack trace.

    `disabled`: the subsystem is not configured, hence was not probed; it counts as ready.
    `degraded`: it is ready, but something that it can do without is not, which `detail` names.
    """

    ready: bool
    detail: str = ""
    disabled: bool = False
    degraded: bool = False


@dataclass(frozen=True, slots=True)
class Probe:
    """`check` runs on a thread of its own and has 2 s; what it raises counts as not ready.

    Apps name their probes by path, as `probes` in `apps.py`.
    It should call the subsystem the way its users do.
    """

    name: str
    required: bool
    check: Callable[[], ProbeResult]


probes: Final[Registry[Probe]] = Registry("probe")
