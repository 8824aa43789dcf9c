"""Why a topology does not come about: a code, a sentence, and where in the suite's text."""

from __future__ import annotations

from typing import Any, Final

PREFIX: Final = "invalid suite topology: "


class TopologyProblem(Exception):
    """One broken rule of suite.star; `code` says which (reference: control-plane 7.7).

    `message` comes without the prefix. Positions are 1-based, of the original text; None where
    unknown, as after an evaluator that had to be killed. `source_line` is the text of that line.
    """

    def __init__(self, code: str, message: str, **position: Any) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.file: str | None = position.get("file")
        self.line: int | None = position.get("line")
        self.column: int | None = position.get("column")
        self.source_line: str | None = position.get("sourceLine")

    def at(self, **position: Any) -> TopologyProblem:
        """The same problem at a position; one that already has a position keeps it."""
        return self if self.line else TopologyProblem(self.code, self.message, **position)

    def position(self) -> dict[str, Any]:
        fields = {
            "file": self.file,
            "line": self.line,
            "column": self.column,
            "sourceLine": self.source_line,
        }
        return {key: value for key, value in fields.items() if value is not None}

    def as_dict(self) -> dict[str, Any]:
        """The wire form: `code, message, file?, line?, column?, sourceLine?`."""
        return {"code": self.code, "message": PREFIX + self.message, **self.position()}
