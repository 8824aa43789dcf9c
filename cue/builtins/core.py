"""Functions without a package. `close`, `and`, `or` and `len` are the evaluator's own work."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Final

from cue.builtins.function import Failed, Function, Numeric, Package, integer, package
from cue.operators import INTEGER_DIVISIONS


def _division(name: str) -> Function:
    divide: Callable[[int, int], int] = INTEGER_DIVISIONS[name]

    def apply(left: Numeric, right: Numeric) -> Numeric:
        if not left.is_int or not right.is_int:
            raise Failed("a number that is no integer")
        if not right.value:
            raise Failed("division by zero")
        return integer(divide(int(left.value), int(right.value)))

    return Function(name, "nn", apply)


def _never(*_: Decimal) -> None:
    raise AssertionError("the evaluator does this itself")


CORE: Final[Package] = package(
    "",
    Function("close", "x", _never),
    Function("and", "x", _never),
    Function("or", "x", _never),
    Function("len", "x", _never),
    *map(_division, INTEGER_DIVISIONS),
)
