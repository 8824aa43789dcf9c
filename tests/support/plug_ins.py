"""The plug-ins of the guides, as files in a folder of their own."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kernel.registry import Registry

GUIDES = Path(__file__).resolve().parents[2] / "docs" / "guides"
_MODULE = re.compile(
    r"`(sync_stack/(\w+)/(\w+)\.py)`, is complete:\n\n```python\n(.*?)```", re.DOTALL
)


@contextmanager
def plug_in_of_guide(guide: str, registry: Registry[Any], folder: Path) -> Iterator[str]:
    """Put the module of a guide on the path of its package; yield the name of its kind."""
    found = _MODULE.search((GUIDES / guide).read_text())
    assert found, f"{guide} has no complete module"
    _path, package_name, name, source = found.groups()
    (folder / f"{name}.py").write_text(source)
    package = importlib.import_module(f"sync_stack.{package_name}")
    registry.discover()
    entries = dict(registry._entries)
    package.__path__.append(str(folder))
    importlib.invalidate_caches()
    try:
        registry.discover()
        yield name
    finally:
        package.__path__.remove(str(folder))
        registry._entries = entries
        sys.modules.pop(f"{package.__name__}.{name}", None)
        vars(package).pop(name, None)
