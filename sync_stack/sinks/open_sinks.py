"""Open sinks by datasource, and the clients that they open."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pkgutil import resolve_name
from typing import Generic, Protocol, TypeVar

from sync_stack.core.bundle.datasources import Datasource, datasource_kinds
from sync_stack.core.bundle.secrets import SecretRef
from sync_stack.core.sink import Sink

Resolve = Callable[[SecretRef], str]


class StoreClient(Protocol):
    """A connection to a destination that can be closed."""

    def close(self) -> None: ...


Made = TypeVar("Made", bound=StoreClient)


class SharedClient(Generic[Made]):
    """A client for several threads; the first call makes it."""

    def __init__(self, make: Callable[[], Made]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._client: Made | None = None

    def __call__(self) -> Made:
        with self._lock:
            if self._client is None:
                self._client = self._make()
            return self._client

    def close(self) -> None:
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            client.close()


def open_sink(datasource: Datasource, resolve: Resolve) -> Sink:
    """Return the sink of a datasource; connections are made at first use.

    Raise UnknownPlugin for a kind that cannot be written, SinkError, and what `resolve` raises.
    """
    kind = datasource_kinds[datasource.kind]
    if not isinstance(datasource.options, kind.options):
        raise TypeError(f"datasource {datasource.name!r} has no {kind.name} options")
    sink: Sink = resolve_name(kind.sink)(datasource, datasource.options, resolve)
    return sink


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
