"""INI: case kept, keys before a section are top-level, no interpolation, no quotes.

Deeper indented lines continue a value; `#` and `;` begin a comment at the start of a line only.
"""

from __future__ import annotations

import re
from typing import Final

from readers.tree import Kind, Tree
from sync_stack.core.file_errors import ShapingError
from sync_stack.core.formats import Format, Source, register
from sync_stack.core.shaping.leaves import flat_values

_BLANK: Final = " \t\r"
_SECTION: Final = re.compile(r"\[([^\]]+)\][ \t\r]*(?:[#;].*)?")
_MEMBER: Final = re.compile(r"([^=:]+)[=:](.*)", re.DOTALL)


class _IniReader:
    def __init__(self, source: Source) -> None:
        self.source = source
        self.top: dict[str, Tree | dict[str, Tree]] = {}
        self.places: dict[str, tuple[int, int]] = {}
        self.section: dict[str, Tree] | dict[str, Tree | dict[str, Tree]] = self.top
        self.key = ""  # the one that a deeper line continues
        self.indent = 0
        self.lines: list[str] = []
        self.place = (1, 1)

    def document(self) -> Tree:
        for number, line in enumerate(self.source.text.split("\n"), 1):
            self.line(line, number)
        self.end_member()
        return self.source.map(
            {
                name: self.source.map(value, self.places[name])
                if isinstance(value, dict)
                else value
                for name, value in self.top.items()
            },
            (1, 1),
        )

    def line(self, line: str, number: int) -> None:
        content = line.strip(_BLANK)
        indent = len(line) - len(line.lstrip(_BLANK))
        if not content or content[0] in "#;":
            if not content:
                self.end_member()
        elif self.key and indent > self.indent:
            self.lines.append(content)
        else:
            self.end_member()
            self.begin(content, indent, (number, indent + 1))

    def begin(self, content: str, indent: int, place: tuple[int, int]) -> None:
        section = _SECTION.fullmatch(content)
        if section:
            self.enter(section[1].strip(_BLANK), place)
            return
        member = _MEMBER.fullmatch(content)
        if not member or not member[1].strip(_BLANK):
            self.source.fail_at("expected `key = value` or `[section]`", place)
        self.key = self.source.key(member[1].strip(_BLANK), self.section, place)
        self.indent, self.place = indent, (place[0], place[1] + member.start(2))
        self.lines = [member[2].strip(_BLANK)]

    def enter(self, name: str, place: tuple[int, int]) -> None:
        found = self.top.setdefault(name, {})
        if isinstance(found, Tree):
            self.source.fail_at(f'"{name[:80]}" is a key and a section', place)
        self.section = found
        self.places.setdefault(name, place)

    def end_member(self) -> None:
        if self.key:
            self.section[self.key] = self.source.string("\n".join(self.lines), self.place)
        self.key = ""


def read(source: Source) -> Tree:
    return _IniReader(source).document()


def render(tree: Tree) -> bytes:
    """Maps at the top become sections. Raises ShapingError(key_invalid) for what INI cannot say."""
    top = {key: value for key, value in tree.pairs.items() if value.kind is not Kind.MAP}
    lines = _members(Tree(kind=Kind.MAP, pairs=top))
    for name, value in tree.pairs.items():
        if value.kind is Kind.MAP and (members := _members(value)):
            if "]" in name or not _is_name(name):
                raise ShapingError("key_invalid", f'the section "{name[:80]}" cannot be written')
            lines += ["", f"[{name}]", *members]
    return "".join(f"{line}\n" for line in lines).lstrip("\n").encode()


def _members(tree: Tree) -> list[str]:
    return [_member(key, value) for key, value in flat_values(tree).items()]


def _member(key: str, value: str) -> str:
    first, *others = value.split("\n")
    if not _is_name(key) or key[0] in "#;[" or "=" in key or ":" in key:
        raise ShapingError("key_invalid", f'the key "{key[:80]}" cannot be written as INI')
    continue_it = (line and line == line.strip(_BLANK) and line[0] not in "#;" for line in others)
    if first != first.strip(_BLANK) or not all(continue_it):
        raise ShapingError("key_invalid", f'the value of "{key[:80]}" cannot be written as INI')
    return "\n    ".join([f"{key} = {first}".rstrip(" "), *others])


def _is_name(text: str) -> bool:
    return bool(text) and "\n" not in text and text == text.strip(f"{_BLANK}\ufeff")


register(
    Format(
        name="ini",
        extensions=("ini", "cfg", "conf", "config"),
        read=read,
        render=render,
        notes="case and quotes are preserved; keys before the first section are top-level; "
        "indented lines continue a value",
    )
)
