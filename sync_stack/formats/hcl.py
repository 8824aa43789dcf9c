"""HCL, literals only: attributes, blocks whose labels nest, objects, lists, strings, heredocs.

A reader of its own rather than a grammar for lark: heredocs end at a word that the text chooses,
and what is an expression (a reference, a call, a template) must be told from what is an error.
"""

from __future__ import annotations

import re
from typing import Final, NoReturn, TypeAlias

from readers.tree import Kind, Tree
from sync_stack.core.formats import MAX_DEPTH, Cursor, Format, Source, register

Place: TypeAlias = tuple[int, int]
_Pairs: TypeAlias = "dict[str, Tree | _Block]"

_COMMENT: Final = r"#[^\n]*+|//[^\n]*+|/\*(?:[^*]++|\*(?!/))*+\*/"
_BLANK: Final = re.compile(rf"(?:[ \t\r]++|{_COMMENT})*+")
_GAP: Final = re.compile(rf"(?:[ \t\r\n]++|{_COMMENT})*+")
_NAME: Final = re.compile(r"[^\W\d][\w-]*+")
_NUMBER: Final = re.compile(r"-?[0-9]++(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?")
_STRING: Final = re.compile(r'"((?:[^"\\\n]++|\\[^\n])*+)"')
_HEREDOC: Final = re.compile(r"<<(-?)([^\W\d][\w-]*+)[ \t]*+\r?\n")
_PIECE: Final = re.compile(
    r"\\u([0-9A-Fa-f]{4})|\\U([0-9A-Fa-f]{8})|\\(.)|(\$\$\{|%%\{)|(\$\{|%\{)", re.DOTALL
)
_TEMPLATE: Final = re.compile(r"(\$\$\{|%%\{)|(\$\{|%\{)")
_SHORT: Final = {"n": "\n", "r": "\r", "t": "\t", '"': '"', "\\": "\\"}
_WORDS: Final = {"true": Kind.BOOL, "false": Kind.BOOL, "null": Kind.NULL}
_ENDS_OF_VALUE: Final = frozenset("\n,]}")


class _Block:
    """A body that several blocks of different labels may share."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.pairs: _Pairs = {}


class _HclReader(Cursor):
    def document(self) -> Tree:
        body = _Block((1, 1))
        self.body(body, 0)
        if self.at < len(self.text):
            self.fail("expected an attribute or a block")
        return self.block_tree(body)

    def body(self, block: _Block, depth: int) -> None:
        """Attributes and blocks up to `}` or the end of the file."""
        self.skip(_GAP)
        while self.at < len(self.text) and self.peek() != "}":
            self.entry(block, depth)
            self.skip(_BLANK)
            if self.peek() not in ("\n", "}", ""):
                self.refuse_unsupported()
            self.skip(_GAP)

    def entry(self, block: _Block, depth: int) -> None:
        place = self.source.place(self.at)
        name = self.name()
        self.skip(_BLANK)
        if self.peek() == "=":
            self.at += 1
            block.pairs[self.source.key(name, block.pairs, place)] = self.value(depth + 1)
        else:
            self.block(block, name, place, depth + 1)

    def block(self, parent: _Block, name: str, place: Place, depth: int) -> None:
        path = [name]
        while self.peek() not in ("{", ""):
            path.append(self.string() if self.peek() == '"' else self.name())
            self.skip(_BLANK)
        if depth + len(path) > MAX_DEPTH:
            self.source.too_deep(place)
        if self.peek() != "{":
            self.fail("expected `=` or `{`")
        self.at += 1
        for label in path[:-1]:
            found = parent.pairs.setdefault(label, _Block(place))
            if not isinstance(found, _Block):
                self.source.fail_at(f'the key "{label[:80]}" occurs twice', place)
            parent = found
        inner = _Block(place)
        parent.pairs[self.source.key(path[-1], parent.pairs, place)] = inner
        self.body(inner, depth + len(path))
        self.close("}")

    def value(self, depth: int) -> Tree:
        self.skip(_BLANK)
        place = self.source.place(self.at)
        tree = self.literal(depth, place)
        self.skip(_BLANK)
        if self.at < len(self.text) and self.peek() not in _ENDS_OF_VALUE:
            self.refuse_unsupported()
        return tree

    def literal(self, depth: int, place: Place) -> Tree:
        first = self.peek()
        if first and first in "[{":
            if depth >= MAX_DEPTH:
                self.source.too_deep(place)
            self.at += 1
            return self.list(depth, place) if first == "[" else self.object(depth, place)
        if first == '"':
            return self.source.string(self.string(), place)
        if self.text.startswith("<<", self.at):
            return self.source.string(self.heredoc(), place)
        return self.word(place)

    def word(self, place: Place) -> Tree:
        number = _NUMBER.match(self.text, self.at)
        if number:
            self.at = number.end()
            return self.source.scalar(Kind.NUMBER, number[0], place)
        name = _NAME.match(self.text, self.at)
        kind = _WORDS.get(name[0]) if name else None
        if not name or not kind:
            self.refuse_unsupported()
        self.at = name.end()
        return self.source.scalar(kind, "" if kind is Kind.NULL else name[0], place)

    def list(self, depth: int, place: Place) -> Tree:
        items: list[Tree] = []
        self.skip(_GAP)
        while self.peek() not in ("]", ""):
            items.append(self.value(depth + 1))
            self.skip(_GAP)
            if self.peek() == ",":
                self.at += 1
                self.skip(_GAP)
            elif self.peek() != "]":
                self.fail("expected `,` or `]`")
        self.close("]")
        return self.source.list(items, place)

    def object(self, depth: int, place: Place) -> Tree:
        pairs: dict[str, Tree] = {}
        self.skip(_GAP)
        while self.peek() not in ("}", ""):
            at = self.source.place(self.at)
            key = self.source.key(self.object_key(), pairs, at)
            self.skip(_BLANK)
            if self.peek() not in ("=", ":"):
                self.fail("expected `=` or `:`")
            self.at += 1
            pairs[key] = self.value(depth + 1)
            if self.peek() == ",":
                self.at += 1
            self.skip(_GAP)
        self.close("}")
        return self.source.map(pairs, place)

    def object_key(self) -> str:
        if self.peek() == '"':
            return self.string()
        if self.peek() == "(":
            self.refuse_unsupported()
        return self.name()

    def name(self) -> str:
        match = _NAME.match(self.text, self.at)
        if not match:
            self.fail("expected a name")
        self.at = match.end()
        return match[0]

    def string(self) -> str:
        match = _STRING.match(self.text, self.at)
        if not match:
            self.fail("a string without end")
        text = _PIECE.sub(self.piece, match[1])
        self.at = match.end()
        return text

    def piece(self, match: re.Match[str]) -> str:
        """An escape, `$${` for `${`, or a template, which is no literal."""
        code = match[1] or match[2]
        if code and int(code, 16) <= 0x10FFFF:  # noqa: PLR2004
            return chr(int(code, 16))
        if match[4]:
            return match[4][1:]
        if match[5]:
            self.refuse_unsupported()
        if match[3] not in _SHORT:
            self.fail("unknown escape")
        return _SHORT[match[3]]

    def heredoc(self) -> str:
        start = _HEREDOC.match(self.text, self.at)
        if not start:
            self.fail("expected a word after `<<` and the end of the line")
        end = re.compile(rf"^[ \t]*{re.escape(start[2])}[ \t\r]*$", re.MULTILINE)
        stop = end.search(self.text, start.end())
        if not stop:
            self.fail(f"the heredoc has no {start[2][:80]} at its end")
        body = self.text[start.end() : stop.start()]
        text = _TEMPLATE.sub(self.template, _unindent(body) if start[1] else body)
        self.at = stop.end()
        return text

    def template(self, match: re.Match[str]) -> str:
        if match[2]:
            self.refuse_unsupported()
        return match[1][1:]

    def block_tree(self, block: _Block) -> Tree:
        pairs = {
            name: self.block_tree(value) if isinstance(value, _Block) else value
            for name, value in block.pairs.items()
        }
        return self.source.map(pairs, block.place)

    def close(self, bracket: str) -> None:
        if self.peek() != bracket:
            self.fail(f"expected `{bracket}`")
        self.at += 1

    def refuse_unsupported(self) -> NoReturn:
        detail = "only literals are read, no references, calls, operators or templates"
        self.source.fail(detail, self.at, code="unsupported_expression")


def _unindent(body: str) -> str:
    lines = body.split("\n")
    indents = [len(line) - len(line.lstrip(" \t")) for line in lines if line.strip()]
    return "\n".join(line[min(indents, default=0) :] for line in lines)


def read(source: Source) -> Tree:
    return _HclReader(source).document()


register(
    Format(
        name="hcl",
        extensions=("tf", "hcl", "tfvars"),
        read=read,
        notes="literals only; references and calls are `unsupported_expression`",
    )
)
