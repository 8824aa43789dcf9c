"""Kinds of values that fields take: each reads a spot, or says what is wrong with it.

`words` is how the reference of the bundle and the messages name what is expected.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from typing import Any, Final, Protocol

from kernel.durations import parse_period_s
from readers.tree import Kind
from sync_stack.core.bundle.diagnostics import Diagnostics, LocatedValue, known_names
from sync_stack.core.globs import BadGlob, check_glob

SHOWN: Final = 60  # characters of a wrong value in a message
_TRUE: Final = "true"
_UNSPECIFIED: Final = "UNSPECIFIED"


class Invalid(Enum):
    """What a reader returns after it complained."""

    INVALID = "bad"


INVALID: Final = Invalid.INVALID


class Value(Protocol):
    """One kind of value. `read` returns it, or INVALID after an error in `findings`."""

    @property
    def words(self) -> str: ...

    def read(self, spot: LocatedValue, findings: Diagnostics) -> Any: ...


def expect(spot: LocatedValue, findings: Diagnostics, words: str, *kinds: Kind) -> bool:
    """True when the value is of one of these kinds; otherwise an error `wrong_type`."""
    if spot.kind in kinds:
        return True
    findings.error(spot, "wrong_type", f"expected {words}, found {_seen(spot)}")
    return False


def _seen(spot: LocatedValue) -> str:
    match spot.kind:
        case Kind.NUMBER | Kind.BOOL:
            return f"{spot.kind} {spot.text[:SHOWN]}"
        case Kind.MAP | Kind.LIST:
            return f"a {spot.kind}"
        case Kind.NULL:
            return "null"
        case Kind.STRING:
            return "text"


@dataclass(frozen=True, slots=True)
class Text:
    """Text that fits a pattern; `shown` False where it may hold a secret."""

    words: str = "text"
    pattern: str = r"[\s\S]+"
    code: str = "out_of_range"
    shown: bool = True

    def read(self, spot: LocatedValue, findings: Diagnostics) -> Any:
        if not expect(spot, findings, self.words, Kind.STRING):
            return INVALID
        if re.fullmatch(self.pattern, spot.text) and "\0" not in spot.text:
            return spot.text
        seen = f'"{spot.text[:SHOWN]}" is not ' if self.shown else "expected "
        findings.error(spot, self.code, f"{seen}{self.words}")
        return INVALID


@dataclass(frozen=True, slots=True)
class Checked:
    """Text that a function turns into a value; its ValueError is the message."""

    words: str
    parse: Callable[[str], Any]
    code: str = "out_of_range"

    def read(self, spot: LocatedValue, findings: Diagnostics) -> Any:
        if not expect(spot, findings, self.words, Kind.STRING):
            return INVALID
        try:
            return self.parse(spot.text)
        except ValueError as error:
            findings.error(spot, self.code, str(error))
            return INVALID


@dataclass(frozen=True, slots=True)
class Flag:
    words: str = "bool"

    def read(self, spot: LocatedValue, findings: Diagnostics) -> Any:
        return spot.text == _TRUE if expect(spot, findings, "a bool", Kind.BOOL) else INVALID


@dataclass(frozen=True, slots=True)
class Whole:
    """A whole number in a range."""

    low: int = 0
    high: int = 2**31 - 1

    @property
    def words(self) -> str:
        return f"int {self.low}..{self.high}"

    def read(self, spot: LocatedValue, findings: Diagnostics) -> Any:
        if not expect(spot, findings, "a whole number", Kind.NUMBER):
            return INVALID
        if not re.fullmatch(r"[-+]?[0-9]{1,18}", spot.text):
            findings.error(
                spot, "wrong_type", f"expected a whole number, found {spot.text[:SHOWN]}"
            )
            return INVALID
        return _in_range(int(spot.text), self, spot, findings)


@dataclass(frozen=True, slots=True)
class Number:
    low: float = 0.0
    high: float = 1e9

    @property
    def words(self) -> str:
        return f"number {self.low:g}..{self.high:g}"

    def read(self, spot: LocatedValue, findings: Diagnostics) -> Any:
        if not expect(spot, findings, "a number", Kind.NUMBER):
            return INVALID
        return _in_range(float(spot.text), self, spot, findings)


def _in_range(
    value: float, bounds: Whole | Number | Duration, spot: LocatedValue, findings: Diagnostics
) -> Any:
    if bounds.low <= value <= bounds.high:
        return value
    findings.error(
        spot, "out_of_range", f"{spot.text[:SHOWN]} is not within {bounds.words.split(' ')[-1]}"
    )
    return INVALID


@dataclass(frozen=True, slots=True)
class Duration:
    """Seconds, from `500ms`, `1h30m`, `7d` or a whole number of seconds."""

    low: float = 0.001
    high: float = 86_400 * 365

    @property
    def words(self) -> str:
        return f"duration {_period(self.low)}..{_period(self.high)}"

    def read(self, spot: LocatedValue, findings: Diagnostics) -> Any:
        if not expect(spot, findings, "a duration such as 30s", Kind.STRING, Kind.NUMBER):
            return INVALID
        try:
            seconds = parse_period_s(spot.text)
        except ValueError as error:
            findings.error(spot, "bad_duration", str(error))
            return INVALID
        return _in_range(seconds, self, spot, findings)


def _period(seconds: float) -> str:
    for unit, size in (("d", 86_400), ("h", 3600), ("m", 60), ("s", 1)):
        if seconds >= size and seconds % size == 0:
            return f"{seconds / size:g}{unit}"
    return f"{seconds * 1000:g}ms"


@dataclass(frozen=True, slots=True)
class Choice:
    """One of an enum's words in any case, with or without one of the prefixes, or its number.

    Where 0 is the number of "as if not given", so is the word UNSPECIFIED, its name in protobuf.
    `renamed`: words that still count as another one, with a warning `deprecated_name`.
    """

    options: type[StrEnum]
    prefixes: tuple[str, ...] = ()
    numbers: Mapping[int, StrEnum | None] = field(default_factory=dict)  # None: as if not given
    renamed: Mapping[str, StrEnum] = field(default_factory=dict)

    @property
    def words(self) -> str:
        numbered = {member: number for number, member in self.numbers.items() if number}
        return " | ".join(
            f"{member} {numbered[member]}" if member in numbered else str(member)
            for member in self.options
        )

    def read(self, spot: LocatedValue, findings: Diagnostics) -> Any:
        kinds = (Kind.STRING, Kind.NUMBER) if self.numbers else (Kind.STRING,)
        if not expect(spot, findings, f"one of {self.words}", *kinds):
            return INVALID
        if spot.kind is Kind.NUMBER:
            return self._by_number(spot, findings)
        word = self._bare(spot.text.upper())
        for member in self.options:
            if member.value.upper() == word:
                return member
        if word == _UNSPECIFIED and 0 in self.numbers:
            return self.numbers[0]
        return self._renamed(word, spot, findings)

    def _bare(self, word: str) -> str:
        """Without its prefix."""
        for prefix in self.prefixes:
            if word.startswith(prefix):
                return word.removeprefix(prefix)
        return word

    def _by_number(self, spot: LocatedValue, findings: Diagnostics) -> Any:
        for number, member in self.numbers.items():
            if spot.text == str(number):
                return member
        numbers = ", ".join(str(number) for number in sorted(self.numbers))
        findings.error(
            spot,
            "bad_enum",
            f"unknown number {spot.text[:SHOWN]} (known: {numbers} = {self.words})",
        )
        return INVALID

    def _renamed(self, word: str, spot: LocatedValue, findings: Diagnostics) -> Any:
        if word in self.renamed:
            member = self.renamed[word]
            findings.warn(spot, "deprecated_name", f'"{spot.text}" is now called "{member}"')
            return member
        known = known_names(spot.text, [str(member) for member in self.options])
        findings.error(spot, "bad_enum", f'unknown value "{spot.text[:SHOWN]}" {known}')
        return INVALID


@dataclass(frozen=True, slots=True)
class Listed:
    """A list of one kind of values, as a tuple."""

    of: Value
    at_least: int = 0
    at_most: int = 1000

    @property
    def words(self) -> str:
        return f"list of {self.of.words}"

    def read(self, spot: LocatedValue, findings: Diagnostics) -> Any:
        if not expect(spot, findings, "a list", Kind.LIST):
            return INVALID
        if not self.at_least <= len(spot.tree.items) <= self.at_most:
            wanted = f"{self.at_least} to {self.at_most} entries"
            findings.error(spot, "out_of_range", f"expected {wanted}, found {len(spot.tree.items)}")
            return INVALID
        made = [self.of.read(item, findings) for item in spot.items()]
        return INVALID if INVALID in made else tuple(made)


@dataclass(frozen=True, slots=True)
class OneOrMore:
    """A list, or one value for a list of one."""

    of: Listed

    @property
    def words(self) -> str:
        return f"{self.of.words}, or one"

    def read(self, spot: LocatedValue, findings: Diagnostics) -> Any:
        if spot.kind is Kind.LIST:
            return self.of.read(spot, findings)
        one = self.of.of.read(spot, findings)
        return INVALID if one is INVALID else (one,)


@dataclass(frozen=True, slots=True)
class Mapped:
    """A map with free names."""

    of: Value
    at_most: int = 1000

    @property
    def words(self) -> str:
        return f"map to {self.of.words}"

    def read(self, spot: LocatedValue, findings: Diagnostics) -> Any:
        if not expect(spot, findings, "a map", Kind.MAP):
            return INVALID
        if len(spot.tree.pairs) > self.at_most:
            findings.error(spot, "out_of_range", f"expected at most {self.at_most} entries")
            return INVALID
        made = {name: self.of.read(member, findings) for name, member in spot.members()}
        return INVALID if INVALID in made.values() else made


@dataclass(frozen=True, slots=True)
class Anything:
    """Read by a function of its own."""

    words: str
    parse: Callable[[LocatedValue, Diagnostics], Any]

    def read(self, spot: LocatedValue, findings: Diagnostics) -> Any:
        return self.parse(spot, findings)


def glob(text: str) -> str:
    """Raises BadGlob."""
    check_glob(text)
    return text


GLOB: Final = Checked("glob", glob, code="bad_glob")
TEXT: Final = Text()
OPTIONAL_TEXT: Final = Text(pattern=r"[\s\S]*")
NAME: Final = Text(words="a name")
ENVIRONMENT: Final = Text(
    words="an environment ([A-Za-z0-9][A-Za-z0-9._-]{0,62})",
    pattern=r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}",
)
TAG: Final = Text(
    words="a tag ([a-z0-9][a-z0-9-]{0,30}, or empty for none)",
    pattern=r"(?:[a-z0-9][a-z0-9-]{0,30})?",
)
HEADER: Final = Text(words="a header name", pattern=r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")

__all__ = [
    "ENVIRONMENT",
    "GLOB",
    "HEADER",
    "INVALID",
    "NAME",
    "OPTIONAL_TEXT",
    "TAG",
    "TEXT",
    "Anything",
    "BadGlob",
    "Checked",
    "Choice",
    "Duration",
    "Flag",
    "Listed",
    "Mapped",
    "Number",
    "OneOrMore",
    "Text",
    "Value",
    "Whole",
    "expect",
    "glob",
]
