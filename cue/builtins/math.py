"""The package math, as far as its results are exact."""

from __future__ import annotations

import decimal as decimals
from decimal import Decimal, localcontext
from typing import Final

from cue.builtins.function import (
    BuiltinConstant,
    CallRefused,
    Failed,
    Function,
    Numeric,
    decimal,
    integer,
    package,
)
from cue.operators import PRECISION
from cue.scalars import Type

_MAX_POWER: Final = 100


def _rounding(mode: str) -> Function:
    names = {
        decimals.ROUND_FLOOR: "Floor",
        decimals.ROUND_CEILING: "Ceil",
        decimals.ROUND_HALF_UP: "Round",
        decimals.ROUND_HALF_EVEN: "RoundToEven",
        decimals.ROUND_DOWN: "Trunc",
    }

    def apply(number: Numeric) -> Numeric:
        return integer(int(number.value.to_integral_value(mode)))

    return Function(f"math.{names[mode]}", "n", apply)


def _power(base: Numeric, exponent: Numeric) -> Numeric:
    """Only what is exact in 34 digits."""
    power = exponent.value
    if power != power.to_integral_value() or not 0 <= power <= _MAX_POWER or not base.value:
        raise CallRefused("a power that is not a whole number from 0 to 100")
    with localcontext(prec=PRECISION) as context:
        made = Decimal(1)
        for _ in range(int(power)):
            made *= base.value
        if context.flags[decimals.Inexact]:
            raise CallRefused("a power of more than 34 digits")
    return decimal(made)


def _root(number: Numeric) -> Numeric:
    if number.value < 0:
        raise Failed("square root of a negative number")
    found = number.value.sqrt()
    if found != found.to_integral_value() or found * found != number.value:
        raise CallRefused("a square root that is not a whole number")
    return decimal(found)


def _multiple(number: Numeric, of: Numeric) -> bool:
    if not of.value:
        raise Failed("division by zero")
    if abs(number.value) >= 10**20:
        raise CallRefused("a number of more than 20 digits")
    return not number.value % of.value


MATH: Final = package(
    "math",
    BuiltinConstant(
        "math.Pi",
        Numeric(
            Decimal("3.14159265358979323846264338327950288419716939937510582097494459"),
            is_int=False,
        ),
    ),
    *map(
        _rounding,
        (
            decimals.ROUND_FLOOR,
            decimals.ROUND_CEILING,
            decimals.ROUND_HALF_UP,
            decimals.ROUND_HALF_EVEN,
            decimals.ROUND_DOWN,
        ),
    ),
    Function("math.Abs", "n", lambda number: decimal(abs(number.value))),
    Function("math.MultipleOf", "nn", _multiple, Type.NUMBER),
    Function("math.Pow", "nn", _power),
    Function("math.Sqrt", "n", _root),
)
