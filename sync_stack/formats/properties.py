r"""Java's properties: `=`, `:` or a blank between key and value, `\` continues a line, `\uXXXX`."""

from __future__ import annotations

import re
from typing import Final

from readers.tree import Tree
from sync_stack.core.formats import Format, Source, escape, register
from sync_stack.core.shaping.leaves import flat_values

_GAP: Final = re.compile(r"(?:[ \t\f\r\n]++|[#!][^\r\n]*+)*+")
_FOLD: Final = re.compile(r"\\(?:\r\n|\r|\n)[ \t\f]*+")
_LINE: Final = re.compile(r"(?:[^\\\r\n]++|\\(?:\r\n|[\s\S]))*+")
_KEY: Final = re.compile(r"(?:[^\\=: \t\f]++|\\[\s\S])*+")
_BETWEEN: Final = re.compile(r"[ \t\f]*+[=:]?[ \t\f]*+")
_ESCAPE: Final = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|([\s\S]))")
_SHORT: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_UNSAFE: Final = re.compile("[\\\\\x01-\x1f\x7f\ufeff]")
_WRITTEN: Final = {"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r", "\f": "\\f"}


def read(source: Source) -> Tree:
    pairs: dict[str, Tree] = {}
    at = _end(_GAP, source.text, 0)
    while at < len(source.text):
        end = _end(_LINE, source.text, at)
        if source.text.startswith("\\", end):
            source.fail("a back-slash at the end of the file", end)
        _member(source, at, end, pairs)
        at = _end(_GAP, source.text, end)
    return source.map(pairs, (1, 1))


def _end(pattern: re.Pattern[str], text: str, at: int) -> int:
    match = pattern.match(text, at)
    return match.end() if match else at


def _member(source: Source, at: int, end: int, pairs: dict[str, Tree]) -> None:
    line = _FOLD.sub("", source.text[at:end])
    place = source.place(at)
    split = _end(_KEY, line, 0)
    start = _end(_BETWEEN, line, split)
    key = source.key(_text(source, line[:split], place), pairs, place)
    folded = "\\" in source.text[at : at + start]
    pairs[key] = source.string(
        _text(source, line[start:], place), place if folded else (place[0], place[1] + start)
    )


def _text(source: Source, raw: str, place: tuple[int, int]) -> str:
    if "\\" not in raw:
        return raw

    def unescape(match: re.Match[str]) -> str:
        if match[1]:
            return chr(int(match[1], 16))
        if match[2] == "u":
            source.fail_at("expected four hexadecimal digits after \\u", place)
        return _SHORT.get(match[2], match[2])

    # two escapes of a surrogate pair are one character; half a pair is refused later
    paired = _ESCAPE.sub(unescape, raw).encode("utf-16-le", "surrogatepass")
    return paired.decode("utf-16-le", "surrogatepass")


def render(tree: Tree) -> bytes:
    """Return one `key=value` a line, as UTF-8."""
    lines = []
    for key, value in flat_values(tree).items():
        name = re.sub(r"[=: #!]", r"\\\g<0>", escape(key, _UNSAFE, _WRITTEN))
        text = escape(value, _UNSAFE, _WRITTEN)
        lines.append(f"{name}=\\{text}\n" if text.startswith(" ") else f"{name}={text}\n")
    return "".join(lines).encode()


register(
    Format(
        name="properties",
        extensions=("properties",),
        read=read,
        render=render,
        notes=r"`=`, `:` or a blank; `\` continues a line; `\uXXXX`",
    )
)
