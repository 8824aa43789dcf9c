"""Sinks by kind. A kind's client library is imported when its first sink is opened, not before."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Final

from kernel.registry import Registry
from sync_stack.core.bundle.datasources import Datasource
from sync_stack.core.bundle.secret_refs import SecretRef
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
