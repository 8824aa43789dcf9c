"""Scalars, basic types and bounds, and what is left when several of them hold at once."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from enum import IntFlag
from typing import Any, Final

import re2

from cue.faults import Fault


class Type(IntFlag):
    """A set of the basic types."""

    NULL = 1
    BOOL = 2
    INT = 4
    FLOAT = 8
    STRING = 16
    BYTES = 32
    LIST = 64
    STRUCT = 128
    NUMBER = 12
    TOP = 255

    def words(self) -> str:
        if self is Type.TOP:
            return "anything"
        names = [name for name in _WORDS if Type[name] & self == Type[name]]
        if "NUMBER" in names:
            names = [name for name in names if name not in ("INT", "FLOAT")]
        return " or ".join(_WORDS[name] for name in names)


_WORDS: Final = {
    "NULL": "null",
    "BOOL": "a boolean",
    "NUMBER": "a number",
    "INT": "an integer",
    "FLOAT": "a float",
    "STRING": "a string",
    "BYTES": "bytes",
    "LIST": "a list",
    "STRUCT": "a struct",
}
Content = Decimal | str | bool | None


@dataclass(frozen=True, slots=True)
class Scalar:
    type: Type
    content: Content
    text: str
    line: int = 0
    column: int = 0

    def equals(self, other: Scalar) -> bool:
        return self.type == other.type and self.content == other.content


@dataclass(frozen=True, slots=True)
class Limit:
    """A bound with its operand: `>= 5`, `=~ "^a"`."""

    operator: str
    operand: Scalar
    line: int
    column: int

    @property
    def type(self) -> Type:
        if self.operand.type & Type.NUMBER:
            return Type.NUMBER
        if self.operand.type is Type.NULL:
            return Type.TOP & ~Type.NULL
        return self.operand.type

    def holds(self, scalar: Scalar) -> bool:
        if self.operator == "!=":
            return self.operand.content != scalar.content or not self.type & scalar.type
        return bool(_COMPARISONS[self.operator](scalar.content, self.operand.content))

    def __str__(self) -> str:
        return f"{self.operator}{self.operand.text}"


def matches(text: Any, pattern: Any) -> bool:
    return re2.search(pattern, text, options=_QUIET) is not None


_QUIET: Final = re2.Options()
_QUIET.log_errors = False
_COMPARISONS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "=~": matches,
    "!~": lambda text, pattern: not matches(text, pattern),
}
_ORDERED: Final = Type.NUMBER | Type.STRING | Type.BYTES


def limit(op: str, operand: Scalar, line: int, column: int) -> Limit | Fault:
    """The bound, or why there is none with such an operand."""
    if op in ("=~", "!~"):
        if operand.type is not Type.STRING:
            return Fault(line, column, "wrong_type", f"{op} needs a string")
        try:
            re2.compile(operand.content, options=_QUIET)
        except re2.error:
            return Fault(
                line, column, "syntax_error", "the pattern is not a regular expression (RE2)"
            )
    elif op != "!=" and not operand.type & _ORDERED:
        return Fault(line, column, "wrong_type", f"{op} needs a number or a string")
    return Limit(op, operand, line, column)


_BITS: Final = (8, 16, 32, 64, 128)
RANGES: Final = {
    **{f"int{bits}": (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) for bits in _BITS},
    **{f"uint{bits}": (0, 2**bits - 1) for bits in _BITS},
    "rune": (0, 0x10FFFF),
}
BASIC: Final[dict[str, Type]] = {
    "_": Type.TOP,
    "bool": Type.BOOL,
    "bytes": Type.BYTES,
    "float": Type.FLOAT,
    "int": Type.INT,
    "number": Type.NUMBER,
    "string": Type.STRING,
    "float32": Type.NUMBER,
    "float64": Type.NUMBER,
    "uint": Type.INT,
    **dict.fromkeys(RANGES, Type.INT),
}
_LARGEST: Final = {
    "float32": Decimal("3.40282346638528859811704183484516925440e+38"),
    "float64": Decimal("1.797693134862315708145274237317043567981e+308"),
}


def predeclared_type(name: str, line: int, column: int) -> tuple[Type, list[Limit]] | None:
    """Return the type that an identifier names where nothing else is declared under it."""
    if name not in BASIC:
        return None
    low, high = RANGES.get(name, (None, None))
    if name == "uint":
        low = 0
    ends: list[tuple[str, Decimal | int | None]] = [(">=", low), ("<=", high)]
    if name in _LARGEST:
        ends = [(">=", -_LARGEST[name]), ("<=", _LARGEST[name])]
    return BASIC[name], [
        Limit(op, Scalar(Type.INT, Decimal(end), str(end)), line, column)
        for op, end in ends
        if end is not None
    ]


@dataclass(slots=True)
class Facts:
    """What is known of one value: its possible types, bounds, and the value itself."""

    types: Type = Type.TOP
    scalar: Scalar | None = None
    limits: list[Limit] = field(default_factory=list)
    line: int = 0  # where the types were narrowed
    column: int = 0

    def narrow(self, types: Type, line: int, column: int) -> Fault | None:
        left = self.types & types
        if not left:
            message = f"{types.words()} where {self.types.words()} is required"
            if self.line:
                message += f" (at {self.line}:{self.column})"
            return Fault(line, column, "wrong_type", message)
        if left != self.types:
            self.types, self.line, self.column = left, line, column
        return None

    def add_scalar(self, scalar: Scalar) -> Fault | None:
        fault = self.narrow(scalar.type, scalar.line, scalar.column)
        if fault:
            return fault
        if self.scalar is None:
            self.scalar = scalar
        elif not self.scalar.equals(scalar):
            message = f"conflicts with the value at {self.scalar.line}:{self.scalar.column}"
            return Fault(scalar.line, scalar.column, "conflict", message)
        return None

    def add_limit(self, added: Limit) -> Fault | None:
        if fault := self.narrow(added.type, added.line, added.column):
            return fault
        self.limits.append(added)
        return None

    def settle(self) -> Fault | None:
        """Check the value against the bounds; without a value see what the bounds leave."""
        if self.scalar is None:
            return self._between()
        for bound in self.limits:
            if not bound.holds(self.scalar):
                message = f"the value is outside {bound} (at {bound.line}:{bound.column})"
                at = self.scalar if self.scalar.line else bound
                return Fault(at.line, at.column, "out_of_range", message)
        return None

    def _between(self) -> Fault | None:
        low = self._tightest((">", ">="), max)
        high = self._tightest(("<", "<="), min)
        if low is None or high is None or low.type is not high.type:
            return None
        if low.type is Type.STRING:
            return None
        return self._check_bounds(low, high)

    def _tightest(self, operators: tuple[str, str], pick: Callable[..., Limit]) -> Limit | None:
        found = [bound for bound in self.limits if bound.operator in operators]
        if not found or len({bound.type for bound in found}) > 1:
            return None
        strict = 1 if pick is max else -1

        def key(bound: Limit) -> tuple[Any, int]:
            return bound.operand.content, strict * (bound.operator in "<>")

        return pick(found, key=key)

    def _check_bounds(self, low: Limit, high: Limit) -> Fault | None:
        """Two bounds may leave no number; where they leave one, editions differ on its value."""
        least, most = _decimal(low), _decimal(high)
        whole = not self.types & Type.FLOAT
        if whole:
            least = least.to_integral_value(ROUND_FLOOR if low.operator == ">" else ROUND_CEILING)
            most = most.to_integral_value(ROUND_CEILING if high.operator == "<" else ROUND_FLOOR)
            least += low.operator == ">"
            most -= high.operator == "<"
        strict = not whole and (low.operator == ">" or high.operator == "<")
        if least > most or (strict and least == most):
            return Fault(high.line, high.column, "conflict", f"no number is {low} and {high}")
        return None


def _decimal(bound: Limit) -> Decimal:
    content = bound.operand.content
    assert isinstance(content, Decimal)
    return content
