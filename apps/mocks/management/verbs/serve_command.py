"""`mock serve`, as `mock --help` lists it.

`manage.py` starts it before Django is imported (mocks.standalone.command); with an option of
Django before the verb, the way leads here.
"""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any, Final

from apps.operations.api import CommandOptions, VerbCommand
from mocks.standalone.arguments import HELP, add_arguments, epilog_of

EXAMPLES: Final = """\
  partita mock serve openapi.yaml
  partita mock serve shop --port 9000 --log"""


def add_verbs(_command: VerbCommand, verbs: Any) -> None:
    parser = verbs.add_parser(
        "serve",
        help="serve the mocks of one suite or contract; needs no store",
        description=HELP,
        epilog=epilog_of("partita mock serve"),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_arguments(parser)
    parser.set_defaults(verb=serve)


def serve(_options: CommandOptions) -> int:
    """Become the process that `partita mock serve` is."""
    words = sys.argv[sys.argv.index("serve") :]
    os.execv(sys.executable, [sys.executable, sys.argv[0], "mock", *words])  # noqa: S606
