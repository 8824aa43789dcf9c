"""Problems of a topology: a code, a sentence and a position in the suite's text."""

from __future__ import annotations

from typing import Any, Final

PREFIX: Final = "invalid suite topology: "


class TopologyProblem(Exception):
    """A broken rule of suite.star, identified by `code` (reference: control-plane 7.7).

    `message` has no prefix. Positions in the original text start at 1 and are None when unknown,
    as after a killed evaluator. `source_line` is the text of that line.
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
        """Return the problem with a position, unless it has one."""
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
        """Return the wire form: `code, message, file?, line?, column?, sourceLine?`."""
        return {"code": self.code, "message": PREFIX + self.message, **self.position()}
