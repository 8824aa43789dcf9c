"""Sinks by kind. A kind's client library is imported when its first sink is opened, not before."""

from __future__ import annotations

import threading
from collections.abc import Callable
from importlib import import_module
from typing import Final

from kernel.registry import Registry
from sync_stack.core.bundle.datasources import Datasource
from sync_stack.core.bundle.secrets import SecretRef
from sync_stack.core.sink import Sink

Resolve = Callable[[SecretRef], str]
OpenSink = Callable[[Datasource, Resolve], Sink]

sinks: Final[Registry[OpenSink]] = Registry("sink")
KINDS: Final = ("configmap", "file", "mongo", "redis", "s3")


def open_sink(datasource: Datasource, resolve: Resolve) -> Sink:
    """The sink of a datasource; secrets are resolved now, connections are made at first use.

    Raises UnknownPlugin for a kind that cannot be written, SinkError, and what `resolve` raises.
    """
    if datasource.kind in KINDS and datasource.kind not in sinks:
        import_module(f"sync_stack.sinks.{datasource.kind}")
    return sinks[datasource.kind](datasource, resolve)


class Sinks:
    """One open sink a datasource; a datasource that changed gets another one."""

    def __init__(self, resolve: Resolve) -> None:
        self._resolve = resolve
        self._open: dict[str, tuple[Datasource, Sink]] = {}
        self._opening = threading.Lock()

    def __call__(self, datasource: Datasource) -> Sink:
        with self._opening:
            known = self._open.get(datasource.name)
            if known is None or known[0] != datasource:
                known = (datasource, open_sink(datasource, self._resolve))
                self._open[datasource.name] = known
            return known[1]
