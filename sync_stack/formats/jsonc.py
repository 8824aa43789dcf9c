"""JSON with comments and trailing commas; a `.json5` file may also use `'` and bare keys."""

from __future__ import annotations

import re
from typing import Final

from readers.tree import Tree
from sync_stack.formats.json import Dialect, Reader
from sync_stack.formats.registry import Format, register
from sync_stack.formats.source import Source

_SPACE: Final = re.compile(r"(?:[ \t\n\r]++|//[^\n]*+|/\*(?:[^*]++|\*(?!/))*+\*/)*+")
JSONC: Final = Dialect(space=_SPACE, trailing_commas=True)
JSON5: Final = Dialect(
    space=_SPACE,
    trailing_commas=True,
    single_quoted=re.compile(r"'((?:[^'\\\n]++|\\.)*+)'"),
    bare_key=re.compile(r"[^\W0-9][\w$]*+|\$[\w$]*+"),
)


def read(source: Source) -> Tree:
    dialect = JSON5 if source.file.lower().endswith(".json5") else JSONC
    return Reader(source, dialect).document()


register(Format(name="jsonc", extensions=("jsonc", "json5"), read=read))
