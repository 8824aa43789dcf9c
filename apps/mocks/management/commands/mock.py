"""`partita mock VERB`: the verbs of every module in `apps/mocks/management/verbs`."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType
from typing import Any, Final

from apps.mocks.management import verbs as package
from apps.operations.api import VerbCommand


def topics() -> Iterator[ModuleType]:
    """Yield the modules of verbs by name."""
    for found in iter_modules(package.__path__, f"{package.__name__}."):
        yield import_module(found.name)


_TOPICS: Final = tuple(topics())


class Command(VerbCommand):
    help = "Serve, import, record and check simulated APIs; `partita mock --help` has more."
    examples = "\n".join(topic.EXAMPLES.strip("\n") for topic in _TOPICS)

    def add_arguments(self, parser: Any) -> None:
        added = self.add_verbs(parser)
        for topic in _TOPICS:
            topic.add_verbs(self, added)
