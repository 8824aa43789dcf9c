"""Arithmetic, comparison and boolean operators on scalars, to 34 digits as CUE computes."""

from __future__ import annotations

from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal, Inexact
from typing import Any, Final

import re2

from cue.faults import Fault, broken_at, unsupported_at
from cue.scalars import Scalar, Type, matches

PRECISION: Final = 34
_CERTAIN_DIGITS: Final = 30
_CONTEXT: Final = Context(prec=PRECISION, rounding=ROUND_HALF_UP)
_ORDERS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "<": lambda left, right: left < right,
    "<=": lambda left, right: left <= right,
    ">": lambda left, right: left > right,
    ">=": lambda left, right: left >= right,
    "==": lambda left, right: left == right,
    "!=": lambda left, right: left != right,
}
_EQUALITY: Final = ("==", "!=")
_MATCHING: Final = ("=~", "!~")


def _truncate(left: int, right: int) -> int:
    found = abs(left) // abs(right)
    return found if (left < 0) == (right < 0) else -found


INTEGER_DIVISIONS: Final[dict[str, Callable[[int, int], int]]] = {
    "div": lambda left, right: (left - left % abs(right)) // right,
    "mod": lambda left, right: left % abs(right),
    "quo": _truncate,
    "rem": lambda left, right: left - right * _truncate(left, right),
}


def operate(operator: str, left: Scalar, right: Scalar, line: int, column: int) -> Scalar | Fault:
    """The value of `left operator right`; Fault where the operands do not allow it."""
    found: Scalar | bool | None
    if operator in ("&&", "||"):
        pair = bool(left.content), bool(right.content)
        found = all(pair) if operator == "&&" else any(pair)
        found = found if left.type is right.type is Type.BOOL else None
    elif operator in _ORDERS:
        found = _compare(operator, left, right)
    elif operator in _MATCHING:
        found = _match(operator, left, right, line, column)
    elif operator in INTEGER_DIVISIONS:
        found = _divide(operator, left, right)
    else:
        found = _compute(operator, left, right, line, column)
    if found is None:
        message = f"{left.type.words()} {operator} {right.type.words()} has no meaning"
        return Fault(line, column, "wrong_type", message)
    if isinstance(found, bool):
        return Scalar(Type.BOOL, found, str(found).lower(), line, column)
    return found


def number(value: Decimal, line: int, column: int, *, is_int: bool) -> Scalar:
    type_ = Type.INT if is_int else Type.FLOAT
    return Scalar(type_, value, f"{value:f}" if is_int else str(value), line, column)


def quotient(left: Decimal, right: Decimal) -> Decimal:
    """Without the zeros at its end, but one where it would have no decimal point."""
    found = _CONTEXT.divide(left, right)
    return _reduce(found, kept=int(found.as_tuple().exponent) < 0 or left != 0)


def _reduce(found: Decimal, *, kept: bool) -> Decimal:
    reduced = found.normalize(_CONTEXT)
    sign, digits, exponent = reduced.as_tuple()
    if kept and isinstance(exponent, int) and exponent >= 0:
        return Decimal((sign, (*digits, 0), exponent - 1))
    return reduced


def _compare(operator: str, left: Scalar, right: Scalar) -> bool | None:
    kinds = left.type | right.type
    if kinds & Type.NULL and operator in _EQUALITY:
        return (left.type is right.type) is (operator == "==")
    numbers = bool(left.type & Type.NUMBER and right.type & Type.NUMBER)
    if not numbers and left.type is not right.type:
        return None
    if operator not in _EQUALITY and not numbers and left.type is not Type.STRING:
        return None
    return _ORDERS[operator](left.content, right.content)


def _match(operator: str, left: Scalar, right: Scalar, line: int, column: int) -> bool | None:
    if left.type is not Type.STRING or right.type is not Type.STRING:
        return None
    try:
        return matches(left.content, right.content) is (operator == "=~")
    except re2.error:
        message = "the pattern is not a regular expression (RE2)"
        raise broken_at(line, column, message) from None


def _divide(operator: str, left: Scalar, right: Scalar) -> Scalar | None:
    if left.type is not Type.INT or right.type is not Type.INT or not right.content:
        return None
    found = INTEGER_DIVISIONS[operator](int(_value(left)), int(_value(right)))
    return number(Decimal(found), left.line, left.column, is_int=True)


def _compute(operator: str, left: Scalar, right: Scalar, line: int, column: int) -> Scalar | None:
    if left.type & Type.NUMBER and right.type & Type.NUMBER:
        return _arithmetic(operator, left, right, line, column)
    types = {left.type, right.type}
    if operator == "+" and types == {Type.STRING}:
        return _text(left.text + right.text, line, column)
    if operator == "*" and types == {Type.STRING, Type.INT}:
        text, count = (left, right) if left.type is Type.STRING else (right, left)
        times = _value(count)
        if times < 0 or times * len(text.text) > _MAX_TEXT:
            raise unsupported_at(line, column, f"a text of more than {_MAX_TEXT} characters")
        return _text(text.text * int(times), line, column)
    return None


_MAX_TEXT: Final = 2**20


def _text(text: str, line: int, column: int) -> Scalar:
    if len(text) > _MAX_TEXT:
        raise unsupported_at(line, column, f"a text of more than {_MAX_TEXT} characters")
    return Scalar(Type.STRING, text, text, line, column)


def _arithmetic(
    operator: str, left: Scalar, right: Scalar, line: int, column: int
) -> Scalar | None:
    one, other = _value(left), _value(right)
    if operator == "/":
        if not other or (not one and _exponent(one) != _exponent(other)):
            return None if not other else _uncertain(line, column)
        return number(quotient(one, other), line, column, is_int=False)
    operation = {"+": _CONTEXT.add, "-": _CONTEXT.subtract, "*": _CONTEXT.multiply}[operator]
    _CONTEXT.clear_flags()
    found = operation(one, other)
    if _CONTEXT.flags[Inexact] or len(found.as_tuple().digits) > _CERTAIN_DIGITS:
        _uncertain(line, column)
    if not found and found.is_signed():
        found = found.copy_abs()
    return number(found, line, column, is_int=left.type is right.type is Type.INT)


def _uncertain(line: int, column: int) -> Scalar:
    raise unsupported_at(line, column, f"a number of more than {_CERTAIN_DIGITS} digits")


def _exponent(value: Decimal) -> int:
    exponent = value.as_tuple().exponent
    assert isinstance(exponent, int)
    return exponent


def _value(scalar: Scalar) -> Decimal:
    assert isinstance(scalar.content, Decimal)
    return scalar.content
