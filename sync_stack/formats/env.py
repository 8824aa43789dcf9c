"""`.env` files: `export`, quotes, comments after a blank; nothing is substituted."""

from __future__ import annotations

import re
from typing import Final

from readers.tree import Tree
from sync_stack.core.file_errors import ShapingError
from sync_stack.core.formats import Cursor, Format, Source, register
from sync_stack.core.shaping.leaves import flat_values

_GAP: Final = re.compile(r"(?:[ \t\r\n]++|#[^\n]*+)*+")
_NAME: Final = re.compile(r"(?:export[ \t]++)?([A-Za-z_][A-Za-z0-9_.-]*+)[ \t]*+=[ \t]*+")
_DOUBLE: Final = re.compile(r'"((?:[^"\\]++|\\.)*+)"', re.DOTALL)
_SINGLE: Final = re.compile(r"'([^']*+)'")
_UNQUOTED: Final = re.compile(r"(?:[^\n#]++|(?<![ \t])#)*+")  # up to a `#` after a blank
_REST: Final = re.compile(r"[ \t\r]*+(?:(?<=[ \t])#[^\n]*+)?(?:\n|\Z)")
_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)
_ESCAPES: Final = {"n": "\n", "t": "\t", '"': '"', "\\": "\\", "$": "$"}
_ESCAPED: Final = {value: f"\\{letter}" for letter, value in _ESCAPES.items()}
_WRITABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_BARE: Final = re.compile(r"[A-Za-z0-9_./:@%+,=-]*")


class _EnvReader(Cursor):
    def document(self) -> Tree:
        pairs: dict[str, Tree] = {}
        self.skip(_GAP)
        while self.at < len(self.text):
            name = _NAME.match(self.text, self.at)
            if not name:
                self.source.fail("expected `NAME=value`", self.at)
            key = self.source.key(name[1], pairs, self.source.place(self.at))
            self.at = name.end()
            pairs[key] = self.value()
            self.skip(_GAP)
        return self.source.map(pairs, (1, 1))

    def value(self) -> Tree:
        start = self.at
        place = self.source.place(start)
        first = self.text[start : start + 1]
        if first and first in "\"'":
            return self.source.string(self.quoted_text(first), place)
        line = _UNQUOTED.match(self.text, start)
        self.at = line.end() if line else start
        return self.source.string(line[0].strip(" \t\r") if line else "", place)

    def quoted_text(self, quote: str) -> str:
        pattern = _DOUBLE if quote == '"' else _SINGLE
        match = pattern.match(self.text, self.at)
        if not match:
            self.source.fail("a quoted value without end", self.at)
        self.at = match.end()
        rest = _REST.match(self.text, self.at)
        if not rest:
            self.source.fail("expected the end of the line after the quotes", self.at)
        self.at = rest.end()
        if quote == "'":
            return match[1]
        return _ESCAPE.sub(lambda found: _ESCAPES.get(found[1], found[0]), match[1])


def read(source: Source) -> Tree:
    return _EnvReader(source).document()


def render(tree: Tree) -> bytes:
    """One `NAME=value` a line. Raises ShapingError(key_invalid) for other names."""
    lines = [_line(name, value) for name, value in flat_values(tree).items()]
    return "".join(lines).encode()


def _line(name: str, value: str) -> str:
    if not _WRITABLE.fullmatch(name):
        raise ShapingError("key_invalid", f'"{name[:80]}" is not a name of an environment variable')
    if _BARE.fullmatch(value):
        return f"{name}={value}\n"
    return f'{name}="{"".join(_ESCAPED.get(letter, letter) for letter in value)}"\n'


register(
    Format(
        name="env",
        extensions=("env",),
        names=(".env", ".env.*", ".envrc"),
        read=read,
        render=render,
        notes=r"""`export`, `"` with `\n \t \" \\ \$`, `'` literal, ` #` comments, """
        "no substitution",
    )
)
