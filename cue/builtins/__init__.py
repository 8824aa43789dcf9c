"""Functions of CUE: those without a package, and the packages that the reader has."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Final

from cue.builtins.encoding import JSON, YAML
from cue.builtins.function import (
    BuiltinConstant,
    CallRefused,
    Failed,
    Function,
    Numeric,
    Package,
    Plain,
    integer,
    package,
)
from cue.builtins.lists import LIST, STRUCT
from cue.builtins.math import MATH
from cue.builtins.net import NET
from cue.builtins.text import REGEXP, STRINGS
from cue.builtins.time import TIME
from cue.operators import INTEGER_DIVISIONS

PACKAGES: Final[dict[str, Package]] = {
    "encoding/json": JSON,
    "encoding/yaml": YAML,
    "list": LIST,
    "math": MATH,
    "net": NET,
    "regexp": REGEXP,
    "strings": STRINGS,
    "struct": STRUCT,
    "time": TIME,
}

__all__ = [
    "CORE",
    "PACKAGES",
    "BuiltinConstant",
    "CallRefused",
    "Failed",
    "Function",
    "Numeric",
    "Package",
    "Plain",
]


def _division(name: str) -> Function:
    divide: Callable[[int, int], int] = INTEGER_DIVISIONS[name]

    def apply(left: Numeric, right: Numeric) -> Numeric:
        if not left.is_int or not right.is_int:
            raise Failed("a number that is not an integer")
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
