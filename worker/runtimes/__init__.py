"""The runtimes by name, one module or package each; importing this package loads them."""

from __future__ import annotations

from kernel.registry import import_plugins
from worker.domain.runtime import runtimes

import_plugins(__name__, __path__)

__all__ = ["runtimes"]
