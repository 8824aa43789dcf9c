"""What the verbs of `partita suite` print in the same way."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from apps.operations.api import escape

if TYPE_CHECKING:
    from rich.console import Console


def console() -> Console:
    from rich.console import Console  # slow to import: `suite list` does without

    return Console(highlight=False, soft_wrap=True)


def print_sentence(sentence: str) -> None:
    console().print(escape(sentence))


def position(fault: Mapping[str, object]) -> str:
    parts = [str(fault[key]) for key in ("file", "line", "column") if key in fault]
    return ":".join(parts) + ": " if parts else ""
