"""Write the reference tables anew: `python -m documentation.reference`.

Each page of docs/tables is made from what the code declares; a test says which one is stale.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Final

import django
from django.conf import settings

from documentation.pages import ROOT

FOLDER: Final = ROOT / "docs" / "tables"
MADE: Final = "<!-- Made by `make reference`: change the code that declares it. -->\n\n"
PAGES: Final[Mapping[str, str]] = {  # page → the module that makes it
    "commands.md": "documentation.tables.commands",
    "environment.md": "documentation.tables.environment",
    "events.md": "documentation.tables.events",
    "metrics.md": "documentation.tables.metrics",
    "problems.md": "documentation.tables.problems",
    "reasons.md": "documentation.tables.reasons",
    "rest.md": "documentation.tables.rest",
    "settings.md": "documentation.tables.settings_keys",
}


def page_text(name: str) -> str:
    """Return a page as it should be. Django must be set up."""
    make: Callable[[], str] = import_module(PAGES[name]).page
    heading, _, rest = make().partition("\n\n")
    return f"{heading}\n\n{MADE}{rest}"


def write(folder: Path = FOLDER) -> list[str]:
    """Write the pages that changed; return their names."""
    folder.mkdir(parents=True, exist_ok=True)
    changed = []
    for name in PAGES:
        path, text = folder / name, page_text(name)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            changed.append(name)
    return changed


def main() -> int:
    if not settings.configured:
        django.setup()
    print(f"changed: {', '.join(write()) or 'nothing'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
