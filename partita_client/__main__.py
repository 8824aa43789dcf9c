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
        name = " ".join(["partita", *result.words[:2]])
        note(f"error: `{name}` works beside the store, and this is the client alone")
        note("next: pip install partita, or partita --help for what the client has")
        sys.exit(ExitCode.USAGE)
    sys.exit(result)


if __name__ == "__main__":
    main()
