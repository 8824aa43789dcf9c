"""Reads what `.proto` files declare: services, messages, enums (proto2, proto3, editions).

A reader of its own: the parsers for Python are generated ones that recurse and take seconds for a
large file, and `protoc` is a C++ program for hostile text. This one reads tokens in linear time. Of
messages it keeps the fields, for samples; options are skipped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from readers import Unreadable

MAX_DEPTH: Final = 64
MAX_NAME: Final = 300  # characters, also of a full name
MAX_TYPES: Final = 20_000  # of a file
_TOKEN: Final = re.compile(
    r"(?P<gap>\s++|//[^\n]*+|/\*(?:[^*]++|\*(?!/))*+\*/)"
    r"|(?P<word>\.?[A-Za-z_][\w]*+(?:\.[A-Za-z_][\w]*+)*+)"
    r"|(?P<number>[0-9][\w.+]*+)"
    r"|(?P<string>\"(?:[^\"\\\n]++|\\.)*+\"|'(?:[^'\\\n]++|\\.)*+')"
    r"|(?P<mark>[{}()\[\]<>;,=:\-+/.])"
)
_LABELS: Final = ("optional", "required", "repeated")


@dataclass(frozen=True, slots=True)
class ProtoToken:
    kind: str
    text: str
    at: int


@dataclass(frozen=True, slots=True)
class ProtoField:
    name: str
    type: str
    repeated: bool = False
    key_type: str = ""  # of a map


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtoRpc:
    name: str
    request: str
    response: str
    streaming: str
    summary: str
    at: int


@dataclass(slots=True)
class ProtoFile:
    """The declarations of a file by their full names; an enum has its first value."""

    path: str
    text: str
    package: str = ""
    imports: list[tuple[str, int]] = field(default_factory=list)
    messages: dict[str, list[ProtoField]] = field(default_factory=dict)
    enums: dict[str, str] = field(default_factory=dict)
    services: dict[str, list[ProtoRpc]] = field(default_factory=dict)

    def position(self, at: int) -> tuple[int, int]:
        before = self.text.rfind("\n", 0, at)
        return self.text.count("\n", 0, at) + 1, at - before


class ProtoReader:
    """Reads the tokens of one file; raises Unreadable at the first that cannot stand there."""

    def __init__(self, file: ProtoFile) -> None:
        self.file = file
        self.tokens = self._tokens()
        self.token = ProtoToken("end", "", 0)
        self.summary = ""
        self.types = 0
        self.advance()

    def _tokens(self) -> Iterator[ProtoToken]:
        text, at = self.file.text.removeprefix("\ufeff"), 0
        comment = ""
        while at < len(text):
            found = _TOKEN.match(text, at)
            if found is None or (found[0] == "/" and text.startswith("/*", at)):
                reason = "a comment without end" if found else f"unexpected {text[at]!r}"
                raise self._unreadable(reason, at)
            if found.lastgroup == "gap":
                comment = _join_comments(comment, found[0])
            else:
                self.summary, comment = comment, ""
                yield ProtoToken(found.lastgroup or "", found[0], at)
            at = found.end()

    def _unreadable(self, reason: str, at: int) -> Unreadable:
        line, column = self.file.position(at)
        return Unreadable(reason, line=line, column=column)

    def fail(self, wanted: str) -> Unreadable:
        shown = repr(self.token.text[:40]) if self.token.text else "the end of the file"
        return self._unreadable(f"expected {wanted}, not {shown}", self.token.at)

    def advance(self) -> ProtoToken:
        passed = self.token
        end = ProtoToken("end", "", len(self.file.text))
        self.token = next(self.tokens, end)
        return passed

    def take(self, text: str) -> None:
        if self.token.text != text:
            raise self.fail(f'"{text}"')
        self.advance()

    def word(self, what: str) -> str:
        if self.token.kind != "word" or len(self.token.text) > MAX_NAME:
            raise self.fail(what)
        return self.advance().text

    def read(self) -> None:
        while self.token.kind != "end":
            self._declaration()

    def _declaration(self) -> None:
        match self.token.text:
            case "package":
                self.advance()
                self.file.package = self.word("the name of the package")
                self.take(";")
            case "import":
                self._import()
            case "service":
                self._service()
            case "message" | "enum":
                self._type(self.file.package, 0)
            case _:
                self.skip_statement()

    def _import(self) -> None:
        self.advance()
        if self.token.text in ("public", "weak", "option"):
            self.advance()
        if self.token.kind != "string":
            raise self.fail("the path of a file")
        self.file.imports.append((self.token.text[1:-1], self.token.at))
        self.advance()
        self.take(";")

    def skip_statement(self) -> None:
        """Skip up to `;` or over a block in braces."""
        depth = 0
        while self.token.kind != "end":
            passed = self.advance()
            text = passed.text
            depth += (text == "{") - (text == "}")
            if depth < 0:
                raise self._unreadable('a "}" without "{"', passed.at)
            if depth == 0 and text in (";", "}"):
                return
        raise self.fail('"}"' if depth else '";"')

    def _service(self) -> None:
        self.advance()
        name = self._full_name(self.file.package, "the name of the service")
        methods = self.file.services.setdefault(name, [])
        self.take("{")
        while self.token.text != "}":
            if self.token.kind == "end":
                raise self.fail('"}"')
            if self.token.text == "rpc":
                methods.append(self._method())
            else:
                self.skip_statement()
        self.advance()

    def _method(self) -> ProtoRpc:
        at, summary = self.token.at, self.summary
        self.advance()
        name = self.word("the name of the method")
        client, request = self._message_of()
        self.take("returns")
        server, response = self._message_of()
        if self.token.text == "{":
            self.skip_statement()
        else:
            self.take(";")
        streaming = "both" if client and server else "client" if client else "server" * server
        return ProtoRpc(
            name=name,
            request=request,
            response=response,
            streaming=streaming,
            summary=summary,
            at=at,
        )

    def _message_of(self) -> tuple[bool, str]:
        self.take("(")
        name = self.word("a message")
        streams = name == "stream" and self.token.kind == "word"
        if streams:
            name = self.word("a message")
        self.take(")")
        return streams, name

    def _type(self, scope: str, depth: int) -> None:
        """Read a message or an enum."""
        is_enum = self.advance().text == "enum"
        if depth > MAX_DEPTH:
            raise self._unreadable(f"nested more than {MAX_DEPTH} deep", self.token.at)
        name = self._full_name(scope, "the name of the type")
        self.take("{")
        if is_enum:
            self._enum(name)
        else:
            self._members(name, self.file.messages.setdefault(name, []), depth)

    def _full_name(self, scope: str, what: str) -> str:
        at = self.token.at
        name = self.word(what)
        full = f"{scope}.{name}" if scope else name
        self.types += 1
        if len(full) > MAX_NAME or self.types > MAX_TYPES:
            raise self._unreadable("too many types, or too long a name", at)
        return full

    def _enum(self, name: str) -> None:
        while self.token.text != "}":
            if self.token.kind == "word" and self.token.text not in ("option", "reserved"):
                self.file.enums.setdefault(name, self.token.text)
            self.skip_statement()
        self.advance()

    def _members(self, name: str, fields: list[ProtoField], depth: int) -> None:
        while self.token.text != "}":
            match self.token.text:
                case "message" | "enum":
                    self._type(name, depth + 1)
                case "oneof":
                    self.advance()
                    self.word("the name of the oneof")
                    self.take("{")
                    self._members(name, [], depth + 1)  # one of its fields at most is set
                case "option" | "reserved" | "extensions" | "extend" | ";":
                    self.skip_statement()
                case "map":
                    self._map(fields)
                case _:
                    self._field(fields)
        self.advance()

    def _map(self, fields: list[ProtoField]) -> None:
        self.advance()
        self.take("<")
        key = self.word("the type of the keys")
        self.take(",")
        value = self.word("the type of the values")
        self.take(">")
        fields.append(ProtoField(self.word("the name of the field"), value, key_type=key))
        self.skip_statement()

    def _field(self, fields: list[ProtoField]) -> None:
        label = self.advance().text if self.token.text in _LABELS else ""
        kind = self.word("a type")
        name = self.word("the name of the field")
        if kind != "group":
            fields.append(ProtoField(name, kind, repeated=label == "repeated"))
        self.skip_statement()


def _join_comments(comment: str, gap: str) -> str:
    """Return the first line of the comments before a token; an empty line ends them."""
    if gap.startswith("//"):
        return comment or gap[2:].strip()[:300]
    if gap.startswith("/*"):
        lines = (line.strip(" \t*") for line in gap[2:-2][:2000].split("\n"))
        return next((line for line in lines if line), "")[:300]
    return "" if gap.count("\n") > 1 else comment
