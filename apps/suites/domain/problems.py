"""Problems of a topology: a code, a sentence and a position in the suite's text."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypedDict, Unpack, cast

PREFIX: Final = "invalid suite topology: "


class Position(TypedDict, total=False):
    """A position in the original text; it starts at 1. `sourceLine` is the text of that line."""

    file: str
    line: int
    column: int
    sourceLine: str


class PartialPosition(TypedDict, total=False):
    """A position whose members may be None, which are unknown."""

    file: str | None
    line: int | None
    column: int | None
    sourceLine: str | None


class ProblemDocument(Position):
    """Why a topology does not resolve; `line` and `column` count from 1.

    Absent members of the position are unknown.
    """

    code: str
    message: str


class TopologyProblem(Exception):
    """A broken rule of suite.star, identified by `code` (reference: control-plane 7.7).

    `message` has no prefix. Members of the position are None when unknown, as after a killed
    evaluator. `more` are further problems of the same suite, in order.
    """

    def __init__(self, code: str, message: str, **position: Unpack[PartialPosition]) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.file = position.get("file")
        self.line = position.get("line")
        self.column = position.get("column")
        self.source_line = position.get("sourceLine")
        self.more: tuple[TopologyProblem, ...] = ()

    def at(self, **position: Unpack[Position]) -> TopologyProblem:
        """Return the problem with a position, unless it has one."""
        return self if self.line else TopologyProblem(self.code, self.message, **position)

    def position(self) -> Position:
        """Return the known members of the position."""
        members: PartialPosition = {
            "file": self.file,
            "line": self.line,
            "column": self.column,
            "sourceLine": self.source_line,
        }
        known = {name: value for name, value in members.items() if value is not None}
        return cast("Position", known)

    def add_problems(self, more: Iterable[TopologyProblem]) -> TopologyProblem:
        """Add the other problems that the suite has, each once; return the first."""
        said = {(self.code, self.message, self.line)}
        for each in more:
            key = (each.code, each.message, each.line)
            if key not in said:
                said.add(key)
                self.more = (*self.more, each)
        return self

    def as_dict(self) -> ProblemDocument:
        """Return the wire form: `code, message, file?, line?, column?, sourceLine?`."""
        return {"code": self.code, "message": PREFIX + self.message, **self.position()}
