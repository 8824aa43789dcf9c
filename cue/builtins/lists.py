"""The packages list and struct."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal, localcontext
from functools import cmp_to_key
from itertools import pairwise
from typing import Any, Final

from cue.builtins.function import (
    MAX_ITEMS,
    BuiltinConstant,
    CallRefused,
    Failed,
    Function,
    Numeric,
    decimal,
    package,
)
from cue.operators import PRECISION, quotient
from cue.scalars import Type

Less = Callable[[Any, Any], bool]
_MOST_UNSTABLE: Final = 12  # older editions sort longer lists without keeping equals in order


def _check_size(items: list[Any]) -> list[Any]:
    if len(items) > MAX_ITEMS:
        raise CallRefused(f"a list of more than {MAX_ITEMS} items")
    return items


def _count(value: int) -> int:
    if value < 0:
        raise Failed("negative index")
    return value


def _slice(items: list[Any], low: int, high: int) -> list[Any]:
    if not 0 <= low <= high <= len(items):
        raise Failed("slice bounds out of range")
    return items[low:high]


def _repeat(items: list[Any], count: int) -> list[Any]:
    if count < 0:
        raise Failed("negative count")
    if len(items) * count > MAX_ITEMS:
        raise CallRefused(f"a list of more than {MAX_ITEMS} items")
    return items * count


def _sum(numbers: list[Numeric]) -> Numeric:
    total = Decimal(0)
    with localcontext(prec=PRECISION):
        for each in numbers:
            total += each.value
    return decimal(total)


def _product(numbers: list[Numeric]) -> Numeric:
    total = Decimal(1)
    with localcontext(prec=PRECISION):
        for each in numbers:
            total *= each.value
    return decimal(total)


def _some(numbers: list[Numeric]) -> list[Decimal]:
    if not numbers:
        raise Failed("empty list")
    return [each.value for each in numbers]


def _average(numbers: list[Numeric]) -> Numeric:
    values = _some(numbers)
    with localcontext(prec=PRECISION):
        return decimal(quotient(sum(values, Decimal(0)), Decimal(len(values))))


def _range(start: Numeric, limit: Numeric, step: Numeric) -> list[Numeric]:
    number, end, width = start.value, limit.value, step.value
    if not width:
        raise Failed("step must be non zero")
    if (number > end) if width > 0 else (number < end):
        raise Failed("the end lies on the wrong side of the start")
    made: list[Numeric] = []
    while (number < end) if width > 0 else (number > end):
        made.append(decimal(number))
        _check_size(made)
        number += width
    return made


def _flatten(items: list[Any], depth: int) -> list[Any]:
    made: list[Any] = []
    for item in items:
        made += _flatten(item, depth - 1) if isinstance(item, list) and depth else [item]
    return _check_size(made)


def _concat(lists: list[Any]) -> list[Any]:
    if not all(isinstance(each, list) for each in lists):
        raise Failed("an item is not a list")
    return _check_size([item for each in lists for item in each])


def _sort(items: list[Any], less: Less) -> list[Any]:
    def compare(one: Any, other: Any) -> int:
        if less(one, other):
            return -1
        if less(other, one):
            return 1
        if len(items) > _MOST_UNSTABLE:
            raise CallRefused("the order of equal items")
        return 0

    return sorted(items, key=cmp_to_key(compare))


def _key(value: Any) -> Any:
    """Equal for equal values; what is equal in some editions only is refused."""
    match value:
        case Numeric():
            return "number", value.value
        case list():
            return "list", tuple(_key(item) for item in value)
        case dict():
            return "struct", frozenset((key, _key(item)) for key, item in value.items())
        case _:
            return type(value).__name__, value


LIST: Final = package(
    "list",
    BuiltinConstant("list.Ascending", "{x: _, y: _, less: x < y}"),
    BuiltinConstant("list.Descending", "{x: _, y: _, less: x > y}"),
    Function("list.Avg", "N", _average),
    Function("list.Concat", "V", _concat),
    Function("list.Contains", "pp", lambda items, wanted: _key(wanted) in set(map(_key, items))),
    Function("list.Drop", "vi", lambda items, count: items[_count(count) :]),
    Function("list.FlattenN", "Vi", _flatten),
    Function(
        "list.IsSorted",
        "vc",
        lambda items, less: not any(less(after, before) for before, after in pairwise(items)),
    ),
    Function("list.IsSortedStrings", "S", lambda texts: texts == sorted(texts)),
    Function("list.Max", "N", lambda numbers: decimal(max(_some(numbers)))),
    Function("list.MaxItems", "vi", lambda items, most: len(items) <= most, Type.LIST),
    Function("list.Min", "N", lambda numbers: decimal(min(_some(numbers)))),
    Function("list.MinItems", "vi", lambda items, least: len(items) >= least, Type.LIST),
    Function("list.Product", "N", _product),
    Function("list.Range", "nnn", _range),
    Function("list.Repeat", "vi", _repeat),
    Function("list.Slice", "vii", _slice),
    Function("list.Sort", "vc", _sort),
    Function("list.SortStable", "vc", _sort),
    Function("list.SortStrings", "S", sorted),
    Function("list.Sum", "N", _sum),
    Function("list.Take", "vi", lambda items, count: items[: _count(count)]),
    Function(
        "list.UniqueItems", "p", lambda items: len(set(map(_key, items))) == len(items), Type.LIST
    ),
)
STRUCT: Final = package(
    "struct",
    Function("struct.MaxFields", "Fi", lambda count, most: count <= most, Type.STRUCT),
    Function("struct.MinFields", "Fi", lambda count, least: count >= least, Type.STRUCT),
)
