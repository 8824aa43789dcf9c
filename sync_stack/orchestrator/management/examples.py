"""How `--help` of the sync's commands ends: exit codes, and examples on lines of their own."""

from __future__ import annotations

from argparse import RawDescriptionHelpFormatter
from collections.abc import Sequence
from typing import Any


def ending(subcommand: str, exit_codes: str, examples: Sequence[str]) -> dict[str, Any]:
    """Keyword arguments of the command's parser."""
    lines = "\n".join(f"  manage.py {subcommand} {line}".rstrip() for line in examples)
    return {
        "epilog": f"Exit codes: {exit_codes}\n\nExamples:\n{lines}",
        "formatter_class": RawDescriptionHelpFormatter,
    }
