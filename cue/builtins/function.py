"""What a function of CUE's packages is: its name, what it takes, how it is computed."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final, NamedTuple

from cue.language.syntax import Known, Node
from cue.scalars import Type

MAX_ITEMS: Final = 20_000
MAX_SHOWN: Final = 60  # characters of a value in a message
MAX_LENGTH: Final = 2**20  # characters of a text that one call makes


class Numeric(NamedTuple):
    """A number with its kind; `text` as CUE prints it."""

    value: Decimal
    is_int: bool

    @property
    def text(self) -> str:
        return f"{self.value:f}" if self.is_int else str(self.value)


Plain = str | bool | None | Numeric | list[Any] | dict[str, Any] | Known | Node


class Failed(Exception):
    """The call is an error, by CUE's own rules."""


class CallRefused(Exception):
    """The call has a result that the built-in reader does not know for certain."""


@dataclass(frozen=True, slots=True)
class Function:
    """`takes`: a letter a parameter.

    s text, i integer, n number, p any concrete value, o the same where the order of fields counts,
    S list of texts, N list of numbers, v list of values as they are, c comparator of two values.
    `validates`: the types of its first argument, where it may stand for a constraint without it.
    """

    name: str
    takes: str
    apply: Callable[..., Any]
    validates: Type | None = None


def spell(value: object) -> str:
    """Return a value for a message: a scalar or list as CUE writes it, cut; `…` for the rest."""
    match value:
        case bool():
            found = str(value).lower()
        case Numeric():
            found = value.text
        case int():
            found = str(value)
        case str():
            found = json.dumps(value[:MAX_SHOWN], ensure_ascii=False)
        case list():
            found = f"[{','.join(map(spell, value[:MAX_SHOWN]))}]"
        case _:
            return "…"
    return found if len(found) <= MAX_SHOWN else f"{found[: MAX_SHOWN - 1]}…"


@dataclass(frozen=True, slots=True)
class BuiltinConstant:
    name: str
    value: Plain


Member = Function | BuiltinConstant
Package = Mapping[str, Member]


def package(name: str, *members: Member) -> Package:
    """The members by their names, which begin with that of the package."""
    return {member.name.removeprefix(f"{name}."): member for member in members}


def integer(value: int) -> Numeric:
    return Numeric(Decimal(value), is_int=True)


def decimal(value: Decimal) -> Numeric:
    """A number as a function gives it back: an integer wherever it has no fraction."""
    if value == value.to_integral_value():
        return Numeric(Decimal(int(value)), is_int=True)
    return Numeric(value, is_int=False)


def check_length(text: str) -> str:
    """Return the text; raise CallRefused for one that is too long."""
    if len(text) > MAX_LENGTH:
        raise CallRefused(f"a text of more than {MAX_LENGTH} characters")
    return text
