"""The program `partita-mock`, also `python -m partita_mock`: `partita mock serve` alone."""

from __future__ import annotations

import gc
import sys
import time
from importlib import import_module
from pathlib import Path


def main() -> None:
    """Serve what the arguments name until a signal.

    The wheel has mocks, surfaces, readers, … in a folder that no other program has on its path.
    They come first, as a project may well have packages of these names; a checkout has none there.
    """
    began = time.monotonic()
    gc.disable()  # until it serves: imports make no garbage, and to look for it takes time
    gc.set_threshold(50_000)
    sys.path.insert(0, str(Path(__file__).with_name("packages")))
    try:
        command = import_module("mocks.standalone.command").Command("partita-mock", began=began)
        sys.exit(command.run(sys.argv[1:]))
    except KeyboardInterrupt:  # before the command could look after it
        sys.exit(130)


if __name__ == "__main__":
    main()
