"""Faults while a CUE file is read, and the limits that keep a hostile one harmless."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

MAX_BYTES: Final = 4 * 2**20
MAX_NESTING: Final = 64
MAX_EXPRESSION: Final = 160  # nodes of syntax below each other
MAX_REFERENCES: Final = 60  # values that need each other in a chain
MAX_STEPS: Final = 1_000_000
STEPS_A_CHARACTER: Final = 1
LEAST_STEPS: Final = 60_000
MAX_VALUES: Final = 300_000
LEAST_VALUES: Final = 20_000
MAX_TEXT: Final = 4 * 2**20  # characters that interpolation makes
MAX_DIGITS: Final = 400
MAX_TOKENS: Final = 300_000


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong at a place; messages never show a value of the file."""

    line: int
    column: int
    code: str
    message: str
    path: str = ""
    trace: tuple[str, ...] = ()  # the same, a part each


class Broken(Exception):
    """The file cannot be read further."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.message)
        self.fault = fault


def broken_at(line: int, column: int, message: str, code: str = "syntax_error") -> Broken:
    return Broken(Fault(line, column, code, message))


def unsupported_at(line: int, column: int, construct: str) -> Broken:
    """Return the refusal of a construct that the built-in reader may misread, or cannot read."""
    return broken_at(line, column, outside(construct), "unsupported_cue")


def outside(construct: str) -> str:
    return f"{construct} is not part of the supported subset of CUE; {_BINARY}"


def may_know(codes: Collection[str]) -> bool:
    """Return whether the `cue` program may read a file that is refused with these codes alone."""
    return bool(codes) and set(codes) <= {"unsupported_cue", "syntax_error"}


_BINARY: Final = "set CUE_BINARY to a cue program to have it read"


class Budget:
    """What one evaluation may cost. Each method raises Broken when that is used up."""

    def __init__(self, characters: int = 0) -> None:
        self.allowed = min(LEAST_STEPS + STEPS_A_CHARACTER * characters, MAX_STEPS)
        self.steps = self.allowed
        self.allowed_values = min(LEAST_VALUES + characters // 2, MAX_VALUES)
        self.values = self.allowed_values
        self.characters = MAX_TEXT
        self.chain = 0

    def step(self) -> None:
        self.steps -= 1
        if self.steps < 0:
            raise too_large(f"takes more than {self.allowed} steps to evaluate")

    def value(self, depth: int) -> None:
        self.values -= 1
        if self.values < 0:
            raise too_large(f"has more than {self.allowed_values} values")
        if depth > MAX_NESTING:
            raise too_large(f"nests values more than {MAX_NESTING} deep")

    def text(self, length: int) -> None:
        self.characters -= length
        if self.characters < 0:
            raise too_large(f"makes more than {MAX_TEXT} characters by interpolation")

    def enter(self) -> None:
        self.chain += 1
        if self.chain > MAX_REFERENCES + MAX_NESTING:
            raise too_large("has values that need each other in too long a chain")

    def leave(self) -> None:
        self.chain -= 1


def too_large(what: str) -> Broken:
    return Broken(Fault(1, 1, "unsupported_cue", f"the file {what}; {_BINARY}"))
