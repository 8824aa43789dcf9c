"""Workers: the agent routes, and the runner that executes steps through the package `worker`."""

from __future__ import annotations

from apps.workers.runner import RunnerThread
from apps.workers.supervisor_setup import choose_local_runtime
from worker.host import container_bridge
from worker.runtimes import runtimes
