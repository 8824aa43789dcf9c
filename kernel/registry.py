"""A plug-in registry: implementations register by name at start-up, callers look them up."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Generic, TypeVar

T = TypeVar("T")


class UnknownPlugin(LookupError):
    """No implementation of that name; the message lists the known ones."""


class Registry(Generic[T]):
    """Names to implementations of one port. A second registration of a name raises ValueError."""

    def __init__(self, port: str) -> None:
        self.port = port
        self._entries: dict[str, T] = {}
        self._paths: dict[str, str] = {}

    def register(self, name: str) -> Callable[[T], T]:
        def add(entry: T) -> T:
            self._refuse_duplicate(name)
            self._entries[name] = entry
            return entry

        return add

    def register_path(self, name: str, path: str) -> None:
        """Register the attribute at `package.module.attribute`.

        The module is imported at the first look-up of `name`: a process that never looks it up
        does not pay for what the module imports.
        """
        self._refuse_duplicate(name)
        self._paths[name] = path

    def __getitem__(self, name: str) -> T:
        if name not in self:
            raise UnknownPlugin(f"unknown {self.port} {name!r}; known: {', '.join(self) or 'none'}")
        if name not in self._entries:
            module, _, attribute = self._paths[name].rpartition(".")
            self._entries[name] = getattr(import_module(module), attribute)
        return self._entries[name]

    def __contains__(self, name: object) -> bool:
        return name in self._entries or name in self._paths

    def __iter__(self) -> Iterator[str]:
        return iter(sorted({*self._entries, *self._paths}))

    def _refuse_duplicate(self, name: str) -> None:
        if name in self:
            raise ValueError(f"{self.port} {name!r} is registered twice")
