"""`partita` where the client alone is installed; also `python -m partita_client`."""

from __future__ import annotations

import sys

from partita_client.command.halves import StoreCommand
from partita_client.command.output import note
from partita_client.command.program import run_words
from partita_client.exit_codes import ExitCode


def main() -> None:
    result = run_words(sys.argv[1:], has_store=False)
    if isinstance(result, StoreCommand):
        name = " ".join(["partita", *(result.words[:2] or ["admin"])])
        note(f"error: `{name}` is no command of the client, and the client alone is installed")
        note("next: partita --help; for what works beside the store: pip install partita")
        sys.exit(ExitCode.USAGE)
    sys.exit(result)


if __name__ == "__main__":
    main()
