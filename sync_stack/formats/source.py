"""A configuration file as text: decoded, with places for its errors and a budget for its values."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final, NoReturn

from readers.tree import Kind, Tree
from sync_stack.core.shaping.errors import ShapingError

MAX_BYTES: Final = 16 * 2**20
MAX_DEPTH: Final = 64
MAX_VALUES: Final = 250_000  # maps, lists and scalars of one file, all environments together
_BOMS: Final = (  # the longer ones first: UTF-32-LE begins like UTF-16-LE
    (b"\xff\xfe\0\0", "utf-32-le"),
    (b"\0\0\xfe\xff", "utf-32-be"),
    (b"\xef\xbb\xbf", "utf-8"),
    (b"\xff\xfe", "utf-16-le"),
    (b"\xfe\xff", "utf-16-be"),
)
_NOT_TEXT: Final = re.compile("[\0\ud800-\udfff]")


class Source:
    """The text of one file; makes the values read from it and the errors about it."""

    def __init__(self, text: str, *, file: str) -> None:
        self.text = text
        self.file = file
        self.values = 0
        self._seen, self._line, self._start = 0, 1, 0  # readers ask for places left to right
        if "\0" in text:
            self.fail("NUL is no text", text.index("\0"))

    @classmethod
    def decoded(cls, data: bytes, *, file: str) -> Source:
        """A byte order mark decides, else strict UTF-8. Raises ShapingError."""
        if len(data) > MAX_BYTES:
            raise ShapingError("parse_error", f"larger than {MAX_BYTES} bytes", file=file)
        mark, encoding = next((bom for bom in _BOMS if data.startswith(bom[0])), (b"", "utf-8"))
        body = data[len(mark) :]
        try:
            return cls(body.decode(encoding), file=file)
        except UnicodeDecodeError as error:
            before = body[: error.start].decode(encoding, errors="replace")
            line = before.count("\n") + 1
            column = len(before) - before.rfind("\n")
            detail = f"not {encoding.upper()}"
            raise ShapingError("parse_error", detail, file=file, line=line, column=column) from None

    def place(self, offset: int) -> tuple[int, int]:
        """Line and column, 1-based, of a character of the text."""
        if offset < self._seen:
            self._seen, self._line, self._start = 0, 1, 0
        breaks = self.text.count("\n", self._seen, offset)
        if breaks:
            self._line += breaks
            self._start = self.text.rfind("\n", self._seen, offset) + 1
        self._seen = offset
        return self._line, offset - self._start + 1

    def fail(self, detail: str, offset: int, *, code: str = "parse_error") -> NoReturn:
        self.fail_at(detail, self.place(min(offset, len(self.text))), code=code)

    def fail_at(
        self, detail: str, place: tuple[int, int], *, code: str = "parse_error"
    ) -> NoReturn:
        raise ShapingError(code, detail, file=self.file, line=place[0], column=place[1])

    def scalar(self, kind: Kind, text: str, place: tuple[int, int]) -> Tree:
        self.count(place)
        if not text.isascii() and _NOT_TEXT.search(text):
            self.fail_at("half of a surrogate pair is no text", place)
        if "\0" in text:
            self.fail_at("NUL is no text", place)
        return Tree(kind=kind, text=text, line=place[0], column=place[1])

    def string(self, text: str, place: tuple[int, int]) -> Tree:
        return self.scalar(Kind.STRING, text, place)

    def map(self, pairs: Mapping[str, Tree], place: tuple[int, int]) -> Tree:
        self.count(place)
        return Tree(kind=Kind.MAP, pairs=pairs, line=place[0], column=place[1])

    def list(self, items: Iterable[Tree], place: tuple[int, int]) -> Tree:
        self.count(place)
        return Tree(kind=Kind.LIST, items=tuple(items), line=place[0], column=place[1])

    def key(self, text: str, taken: Mapping[str, object], place: tuple[int, int]) -> str:
        """The name of a member that must be new among its siblings, and text."""
        if text in taken:
            self.fail_at(f'the key "{text[:80]}" occurs twice', place)
        if "\0" in text or (not text.isascii() and _NOT_TEXT.search(text)):
            self.fail_at("a key holds NUL or half of a surrogate pair", place)
        return text

    def too_deep(self, place: tuple[int, int]) -> NoReturn:
        self.fail_at(f"nested more than {MAX_DEPTH} deep", place)

    def count(self, place: tuple[int, int]) -> None:
        """One value more; done by whatever makes one."""
        self.values += 1
        if self.values > MAX_VALUES:
            self.fail_at(f"more than {MAX_VALUES} values", place, code="too_many_keys")


class Cursor:
    """A position in the text of a file; readers of one format extend it."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.text = source.text
        self.at = 0

    def skip(self, pattern: re.Pattern[str]) -> None:
        match = pattern.match(self.text, self.at)
        self.at = match.end() if match else self.at

    def peek(self) -> str:
        """Return the next character, "" at the end."""
        return self.text[self.at : self.at + 1]

    def fail(self, detail: str) -> NoReturn:
        self.source.fail(detail, self.at)
