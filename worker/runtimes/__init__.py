"""The runtimes by name; a runtime and its libraries are imported when it is looked up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kernel.registry import Registry
from worker.domain.runtime import Runtime, RuntimeOptions

runtimes: Final[Registry[Callable[[RuntimeOptions], Runtime]]] = Registry("runtime")
runtimes.register_path("docker", "worker.runtimes.docker.DockerRuntime")
runtimes.register_path("process", "worker.runtimes.process.ProcessRuntime")
