"""Steps as processes of this host: the runtime `process`."""

from __future__ import annotations

from worker.runtimes.process.runtime import ProcessRuntime

__all__ = ["ProcessRuntime"]
