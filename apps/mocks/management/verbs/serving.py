"""`mock serve`, as `mock --help` lists it.

`manage.py` starts it before Django is imported (apps.mocks.standalone); this is the same command
for whoever comes by another way.
"""

from __future__ import annotations

import argparse
import time
from typing import Any, Final

from apps.mocks import conf
from apps.mocks.standalone_arguments import EPILOG, HELP, add_arguments
from apps.operations.api import VerbCommand

EXAMPLES: Final = """\
  manage.py mock serve openapi.yaml
  manage.py mock serve shop --port 9000 --log"""


def add_verbs(_command: VerbCommand, verbs: Any) -> None:
    parser = verbs.add_parser(
        "serve",
        help="serve the mocks of one suite or contract; needs no store",
        description=HELP,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_arguments(parser)
    parser.set_defaults(verb=serve)


def serve(options: dict[str, Any]) -> int:
    from apps.mocks.standalone import Command  # imports a web server

    command = Command("manage.py mock serve", conf.suites_folder, began=time.monotonic())
    return command.serve(argparse.Namespace(**options))
