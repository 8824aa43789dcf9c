"""Records of the two topics of a session: what was written, and what was typed.

A record of the output is a JSON string of base64. One of the input is an object: bytes to type, or
a new size of the terminal. Bytes as they are would not do: a record has no newline.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final
from uuid import UUID

MOST_BYTES: Final = 64 * 2**10  # of one message, in both directions
LARGEST_SIZE: Final = 1000
MOST_UNREAD: Final = 2**20  # bytes that the one side may be ahead of the other


@dataclass(frozen=True, slots=True, kw_only=True)
class TerminalSize:
    columns: int
    rows: int


def terminal_size(columns: object, rows: object) -> TerminalSize:
    """Return the size; raise ValueError for what no terminal has."""
    for name, value in (("columns", columns), ("rows", rows)):
        if type(value) is not int or not 1 <= value <= LARGEST_SIZE:
            raise ValueError(f"{name} must be a whole number from 1 to {LARGEST_SIZE}")
    return TerminalSize(columns=int(str(columns)), rows=int(str(rows)))


def output_topic(shell_id: UUID | str) -> str:
    return f"shell:{shell_id}:output"


def input_topic(shell_id: UUID | str) -> str:
    return f"shell:{shell_id}:input"


def output_record(data: bytes) -> bytes:
    return b'"' + b64encode(data) + b'"'


def output_bytes(record: bytes) -> bytes:
    return b64decode(record[1:-1])


def input_record(typed: bytes | TerminalSize) -> bytes:
    if isinstance(typed, TerminalSize):
        return json.dumps({"columns": typed.columns, "rows": typed.rows}).encode()
    return b'{"input":"' + b64encode(typed) + b'"}'


def typed_by(records: Iterable[bytes]) -> list[bytes | TerminalSize]:
    """Return what the records of the input say, in order."""
    typed: list[bytes | TerminalSize] = []
    for record in records:
        fields = json.loads(record)
        if "input" in fields:
            typed.append(b64decode(fields["input"]))
        else:
            typed.append(TerminalSize(columns=fields["columns"], rows=fields["rows"]))
    return typed
