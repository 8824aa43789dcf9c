"""What verbs print: tables and documents to stdout, everything else to stderr."""

from __future__ import annotations

import json
import os
import re
import sys
import time
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from partita_client import conf
from partita_client.command.yaml_text import yaml_text
from partita_client.standard_streams import has_all_letters, write_line
from partita_client.unprintable import UNPRINTABLE

TABLES: Final = ("text", "table", "wide")
FORMATS: Final = (*TABLES, "name", "json", "yaml", "ndjson")
_COLOUR: Final = re.compile("\x1b\\[[0-9;:]*m")
_STYLES: Final = {
    "bold": "1",
    "dim": "2",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "blue": "34",
    "magenta": "35",
    "cyan": "36",
}
_STYLE_OF_STATUSES: Final = {
    "green": "Healthy healthy Running ready online Ready Indexed",
    "red": "Failed failed Zombie not_ready offline Disconnected",
    "yellow": "Canceled Canceling canceled skipped Degraded Residual degraded draining",
    "blue": "Booting running",
    "dim": "Queued queued pending disabled",
}
STATUS_STYLES: Final = {
    status: style for style, names in _STYLE_OF_STATUSES.items() for status in names.split()
}
_USUAL_COLUMNS: Final = 80
_AGES: Final = ((86_400, "d"), (3600, "h"), (60, "m"), (1, "s"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ListColumn:
    """A column of a table; `is_wide`: only with `-o wide`. `is_status`: colored on a terminal."""

    heading: str
    cell: Callable[[Any], str]
    is_wide: bool = False
    is_status: bool = False


def printable(text: str) -> str:
    """Return text in one line that cannot drive a terminal, nor turn the direction of text."""
    return UNPRINTABLE.sub("?", _COLOUR.sub("", text)).replace("\n", "?")


def printable_lines(text: str) -> str:
    """Return lines that cannot drive a terminal; tabs and ends of lines stay."""
    return "\n".join(map(printable, text.split("\n")))


def has_colors(stream: Any) -> bool:
    """Return whether to color: a terminal, without NO_COLOR, or CLICOLOR_FORCE."""
    if conf.variable("NO_COLOR"):
        return False
    if conf.variable("CLICOLOR_FORCE") not in ("", "0"):
        return True
    return bool(stream.isatty()) and conf.variable("TERM") != "dumb"


def paint(text: str, style: str) -> str:
    """Return the text in a style where stdout has colors."""
    codes = [_STYLES[word] for word in style.split() if word in _STYLES]
    if not codes or not text or not has_colors(sys.stdout):
        return text
    return f"\x1b[{';'.join(codes)}m{text}\x1b[0m"


def say(text: str) -> None:
    """Write a line of data."""
    sys.stdout.write(f"{text}\n")


def note(text: str) -> None:
    """Write a line of progress, a warning or an error."""
    write_line(sys.stderr, text)


def show_document(document: Any, form: str, *, name: str = "") -> None:
    """Print a document for programs in one of the formats `json`, `yaml` and `ndjson`.

    With the format `name` print that of what the document describes.
    """
    if form == "name":
        say(printable(name))
    elif form == "yaml":
        sys.stdout.write(yaml_text(document))
    else:
        indent = None if form == "ndjson" else 2
        say(json.dumps(document, ensure_ascii=not has_all_letters(), indent=indent))


def show_list(
    name: str, documents: Sequence[Any], columns: Sequence[ListColumn], form: str, *, key: str
) -> None:
    """Print a list; `name` is its key in the document, `key` that of what names an entry."""
    if form == "name":
        sys.stdout.writelines(f"{printable(str(each[key]))}\n" for each in documents)
    elif form == "ndjson":
        for each in documents:
            show_document(each, form)
    elif form in ("json", "yaml"):
        show_document({name: list(documents)}, form)
    else:
        shown = [each for each in columns if form == "wide" or not each.is_wide]
        rows = [[column.cell(each) for column in shown] for each in documents]
        show_table([each.heading for each in shown], rows, styled=[c.is_status for c in shown])


def show_table(
    headings: Sequence[str], rows: Sequence[Sequence[str]], *, styled: Sequence[bool] = ()
) -> None:
    """Print a table as wide as its content: an id is never cut."""
    cells = [[printable(cell) for cell in row] for row in (headings, *rows)]
    widths = [max(map(cell_width, column)) for column in zip(*cells, strict=True)]
    for number, row in enumerate(cells):
        parts = []
        for column, (cell, width) in enumerate(zip(row, widths, strict=True)):
            style = "bold" if not number else ""
            if number and column < len(styled) and styled[column]:
                style = STATUS_STYLES.get(cell, "")
            last = column == len(row) - 1
            padding = "" if last else " " * (width - cell_width(cell))
            parts.append(paint(cell, style) + padding)
        say("  ".join(parts).rstrip())


def align_columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return rows as lines whose columns are as wide as their widest cell."""
    cells = [[printable(cell) for cell in row] for row in rows]
    widths = [max(map(cell_width, column)) for column in zip(*cells, strict=True)]
    return [
        "  ".join(
            cell + " " * (width - cell_width(cell)) for cell, width in zip(row, widths, strict=True)
        ).rstrip()
        for row in cells
    ]


def terminal_columns() -> int:
    """Return the width of the terminal, 80 where there is none.

    `shutil` has the same, and imports each module for archives with it.
    """
    given = conf.variable("COLUMNS")
    if given.isdecimal() and int(given):
        return int(given)
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or _USUAL_COLUMNS
    except (AttributeError, ValueError, OSError):
        return _USUAL_COLUMNS


def cell_width(text: str) -> int:
    """Return how many columns a text takes on a terminal."""
    if text.isascii():
        return len(text)
    wide = sum(unicodedata.east_asian_width(each) in "WF" for each in text)
    return len(text) + wide - sum(map(bool, map(unicodedata.combining, text)))


def age_of(time_text: str | None) -> str:
    """Return how long ago an RFC 3339 time was, such as `5m`; a dash for none."""
    if not time_text:
        return "–"
    try:
        passed = max(0.0, time.time() - datetime.fromisoformat(time_text).timestamp())
    except ValueError:
        return time_text
    return age_text(passed)


def age_text(seconds: float) -> str:
    """Return `45s`, `5m`, `3h`, `2d`."""
    for size, unit in _AGES:
        if seconds >= size:
            return f"{int(seconds // size)}{unit}"
    return "0s"


def bytes_text(size: int) -> str:
    """Return `512 B`, `1.5 KiB`, `20.0 MiB`."""
    amount, unit = float(size), "B"
    for larger in ("KiB", "MiB", "GiB"):
        if amount < 1024:  # noqa: PLR2004
            break
        amount, unit = amount / 1024, larger
    return f"{size} B" if unit == "B" else f"{amount:.1f} {unit}"


def join_some(names: Iterable[str], limit: int) -> str:
    """Return the names in one line, those beyond the limit as a count."""
    known = list(names)
    rest = f" and {len(known) - limit} more" if len(known) > limit else ""
    return f"{', '.join(known[:limit])}{rest}"
