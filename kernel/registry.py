"""A plug-in registry: implementations register by name, callers look them up."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Generic, TypeVar

T = TypeVar("T")


class UnknownPlugin(LookupError):
    """No implementation of that name; the message lists the known ones."""


class Registry(Generic[T]):
    """Names to implementations of one port. A second registration of a name raises ValueError.

    `package`: where the plug-ins are. Its modules are imported at the first look-up, so a plug-in
    is added by adding its file. If one cannot be imported, every look-up raises its error.
    """

    def __init__(self, port: str, *, package: str = "") -> None:
        self.port = port
        self._package = package
        self._is_complete = not package
        self._failure: Exception | None = None
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

    def register_declared(self, attribute: str, declarers: Iterable[object]) -> None:
        """Register the paths that each declarer holds in `attribute`, a map of name → path.

        Apps declare in their `apps.py`, and the app that owns the registry calls this in `ready()`:
        so who declares imports nothing of the owner.
        """
        for declarer in declarers:
            for name, path in getattr(declarer, attribute, {}).items():
                self.register_path(name, path)

    def discover(self) -> None:
        """Import the modules of the package that are not imported yet; raise what one raises."""
        if self._failure is not None:
            # a second import would only say that names are registered twice
            raise self._failure.with_traceback(None)
        try:
            import_plugins(self._package, import_module(self._package).__path__)
        except Exception as error:
            self._failure = error
            raise
        self._is_complete = True

    def __getitem__(self, name: str) -> T:
        if name not in self:
            raise UnknownPlugin(f"unknown {self.port} {name!r}; known: {', '.join(self) or 'none'}")
        if name not in self._entries:
            module, _, attribute = self._paths[name].rpartition(".")
            self._entries[name] = getattr(import_module(module), attribute)
        return self._entries[name]

    def __contains__(self, name: object) -> bool:
        if not self._is_complete:
            self.discover()
        return name in self._entries or name in self._paths

    def __iter__(self) -> Iterator[str]:
        if not self._is_complete:
            self.discover()
        return iter(sorted({*self._entries, *self._paths}))

    def _refuse_duplicate(self, name: str) -> None:
        if name in self._entries or name in self._paths:
            raise ValueError(f"{self.port} {name!r} is registered twice")


def import_plugins(package: str, path: Iterable[str]) -> None:
    """Import every module of a package, by name; each registers what it implements."""
    for name in plugin_names(path):
        import_module(f"{package}.{name}")


def plugin_names(path: Iterable[str]) -> list[str]:
    """Return the names of the modules in the folders of a package."""
    # pkgutil.iter_modules imports `inspect`, 10 ms in each evaluator process.
    found = [each for folder in path for each in Path(folder).iterdir()]
    modules = {each.stem for each in found if each.suffix == ".py"}
    packages = {each.name for each in found if (each / "__init__.py").exists()}
    names = modules | packages
    return sorted(name for name in names if name.isidentifier() and name != "__init__")
