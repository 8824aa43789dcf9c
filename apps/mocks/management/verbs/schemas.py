"""`mock schema`: the JSON Schema of the files of mock/, for editors."""

from __future__ import annotations

import json
import sys
from typing import Any, Final

from apps.operations.api import CommandOptions, VerbCommand
from surfaces.mock_files.file_schemas import FILE_SCHEMAS

EXAMPLES: Final = """\
  partita mock schema examples > mock-examples.schema.json   completion in editors"""


def add_verbs(command: VerbCommand, verbs: Any) -> None:
    schema = command.add_verb(
        verbs, "schema", print_schema, "print the JSON Schema of the files of mock/, for editors"
    )
    schema.add_argument("file", choices=list(FILE_SCHEMAS), help="which kind of file")


def print_schema(options: CommandOptions) -> int:
    sys.stdout.write(f"{json.dumps(FILE_SCHEMAS[options['file']](), indent=2)}\n")
    return 0
