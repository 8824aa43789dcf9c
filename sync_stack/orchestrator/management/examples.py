"""The end of `--help` of the sync's commands: exit codes and examples."""

from __future__ import annotations

from argparse import RawDescriptionHelpFormatter
from collections.abc import Sequence
from typing import Any


def help_epilog(subcommand: str, exit_codes: str, examples: Sequence[str]) -> dict[str, Any]:
    """Return keyword arguments for the command's parser."""
    lines = "\n".join(f"  manage.py {subcommand} {line}".rstrip() for line in examples)
    return {
        "epilog": f"Exit codes: {exit_codes}\n\nExamples:\n{lines}",
        "formatter_class": RawDescriptionHelpFormatter,
    }
