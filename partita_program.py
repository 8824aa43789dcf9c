"""`partita` as people type it: the client, and beside the store what `manage.py` does."""

from __future__ import annotations

import os
import sys

from partita_client.command.halves import StoreCommand
from partita_client.command.program import run_words


def main() -> None:
    """Run the command of `sys.argv`."""
    result = run_words(sys.argv[1:])
    if not isinstance(result, StoreCommand):
        sys.exit(result)
    if result.data_dir:
        os.environ["DATA_DIR"] = result.data_dir  # noqa: TID251 - for the settings, read later
    sys.argv[1:] = result.words
    from manage import main as run_beside_the_store

    run_beside_the_store()


if __name__ == "__main__":
    main()
