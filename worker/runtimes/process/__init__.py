"""Steps as processes of this host; importing the package registers the runtime `process`."""

from __future__ import annotations

from worker.runtimes.process.runtime import ProcessRuntime

__all__ = ["ProcessRuntime"]
