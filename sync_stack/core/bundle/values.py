"""Types of values: text, numbers, durations, choices, lists, maps.

The description of a type stands in the reference of the bundle and in messages.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from kernel.durations import parse_period_s
from readers.tree import Kind
from sync_stack.core.bundle.diagnostics import InvalidValue, LocatedValue, known_names
from sync_stack.core.bundle.urls import http_url
from sync_stack.core.globs import check_glob

SHOWN: Final = 60  # characters of a wrong value in a message
ENVIRONMENT_PATTERN: Final = r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}"
TAG_PATTERN: Final = r"(?:[a-z0-9][a-z0-9-]{0,30})?"
_NO_NAMES: Final[Mapping[str, Any]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class ValueType:
    """`read` returns the value, or raises InvalidValue after it recorded an error.

    `shown`: the description; a function where it depends on plug-ins, which register later.
    """

    shown: str | Callable[[], str]
    read: Callable[[LocatedValue], Any]

    @property
    def description(self) -> str:
        return self.shown if isinstance(self.shown, str) else self.shown()


def expect(located: LocatedValue, description: str, *kinds: Kind) -> str:
    """Return the text of a value of these kinds; otherwise raise InvalidValue: `wrong_type`."""
    if located.kind in kinds:
        return located.text
    found = {Kind.STRING: "text", Kind.NULL: "null", Kind.MAP: "a map", Kind.LIST: "a list"}
    seen = found.get(located.kind, f"{located.kind} {located.text[:SHOWN]}")
    raise located.error("wrong_type", f"expected {description}, found {seen}")


def text(
    description: str = "text", pattern: str = r"[\s\S]+", *, secret: bool = False
) -> ValueType:
    """Return a type for text that fits a pattern; messages do not repeat a `secret` one."""

    def read(located: LocatedValue) -> str:
        written = expect(located, description, Kind.STRING)
        if re.fullmatch(pattern, written) and "\0" not in written:
            return written
        seen = "expected " if secret else f'"{written[:SHOWN]}" is not '
        raise located.error("out_of_range", f"{seen}{description}")

    return ValueType(description, read)


def parsed_text(
    description: str, parse: Callable[[str], Any], code: str = "out_of_range"
) -> ValueType:
    """Return a type for text that `parse` turns into a value; its ValueError is the message."""

    def read(located: LocatedValue) -> Any:
        written = expect(located, description, Kind.STRING)
        try:
            return parse(written)
        except ValueError as error:
            raise located.error(code, str(error)) from None

    return ValueType(description, read)


def whole(low: int = 0, high: int = 2**31 - 1) -> ValueType:
    def read(located: LocatedValue) -> int:
        written = expect(located, "a whole number", Kind.NUMBER)
        if not re.fullmatch(r"[-+]?[0-9]{1,18}", written):
            message = f"expected a whole number, found {written[:SHOWN]}"
            raise located.error("wrong_type", message)
        return int(_in_range(int(written), low, high, f"{low}..{high}", located))

    return ValueType(f"int {low}..{high}", read)


def number(low: float, high: float) -> ValueType:
    shown = f"{low:g}..{high:g}"

    def read(located: LocatedValue) -> float:
        written = expect(located, "a number", Kind.NUMBER)
        return _in_range(float(written), low, high, shown, located)

    return ValueType(f"number {shown}", read)


def duration(low: float = 0.001, high: float = 86_400 * 365) -> ValueType:
    """Seconds, from `500ms`, `1h30m`, `7d` or a whole number of seconds."""
    shown = f"{_period(low)}..{_period(high)}"

    def read(located: LocatedValue) -> float:
        written = expect(located, "a duration such as 30s", Kind.STRING, Kind.NUMBER)
        try:
            seconds = parse_period_s(written)
        except ValueError as error:
            raise located.error("bad_duration", str(error)) from None
        return _in_range(seconds, low, high, shown, located)

    return ValueType(f"duration {shown}", read)


def _in_range(value: float, low: float, high: float, shown: str, located: LocatedValue) -> float:
    if low <= value <= high:
        return value
    message = f"{located.text[:SHOWN]} is not within {shown}"
    raise located.error("out_of_range", message)


def _period(seconds: float) -> str:
    for unit, size in (("d", 86_400), ("h", 3600), ("m", 60), ("s", 1)):
        if seconds >= size and seconds % size == 0:
            return f"{seconds / size:g}{unit}"
    return f"{seconds * 1000:g}ms"


def choice(
    members: Iterable[str],
    prefixes: str = "",
    *,
    numbers: range | None = None,
    renamed: Mapping[str, str] = _NO_NAMES,
) -> ValueType:
    """One of the members in any case, perhaps behind one of the prefixes, or its number.

    `numbers`: protobuf numbers the members from 1; 0 and UNSPECIFIED, its name there, are None.
    `renamed`: old names that still count, with a warning `deprecated_name`.
    """
    options = tuple(members)
    by_name = {str(member).upper(): member for member in options}
    by_number = {str(each): options[each - 1] if each else None for each in numbers or ()}
    numbered = zip(options, numbers[-len(options) :], strict=True) if numbers else ()
    description = " | ".join([f"{name} {each}" for name, each in numbered] or map(str, options))
    kinds = (Kind.STRING, Kind.NUMBER) if numbers else (Kind.STRING,)

    def read(located: LocatedValue) -> str | None:
        word = expect(located, f"one of {description}", *kinds).upper()
        seen = located.text[:SHOWN]
        if located.kind is Kind.NUMBER:
            if located.text in by_number:
                return by_number[located.text]
            known = f"(known: {', '.join(by_number)} = {description})"
            raise located.error("bad_enum", f"unknown number {seen} {known}")
        prefix = next((prefix for prefix in prefixes.split() if word.startswith(prefix)), "")
        word = word.removeprefix(prefix)
        if word in by_name:
            return by_name[word]
        if word == "UNSPECIFIED" and "0" in by_number:
            return None
        if word in renamed:
            message = f'"{located.text}" is now called "{renamed[word]}"'
            located.warn("deprecated_name", message)
            return renamed[word]
        known = known_names(located.text, map(str, options))
        raise located.error("bad_enum", f'unknown value "{seen}" {known}')

    return ValueType(description, read)


def choice_of(names: Callable[[], Iterable[str]], prefixes: str = "") -> ValueType:
    """Return a type for one of the names that plug-ins have registered."""
    return ValueType(
        lambda: choice(names(), prefixes).description,
        lambda located: choice(names(), prefixes).read(located),
    )


def list_of(member: ValueType, at_least: int = 0, at_most: int = 1000) -> ValueType:
    """Return a type that reads a list of one type as a tuple."""

    def read(located: LocatedValue) -> tuple[Any, ...]:
        expect(located, "a list", Kind.LIST)
        count = len(located.tree.items)
        if not at_least <= count <= at_most:
            message = f"expected {at_least} to {at_most} entries, found {count}"
            raise located.error("out_of_range", message)
        return tuple(read_all(member.read, located.items()))

    return ValueType(f"list of {member.description}", read)


def one_or_more(member: ValueType) -> ValueType:
    """A list that is not empty, or one value for a list of one."""
    many = list_of(member, at_least=1)

    def read(located: LocatedValue) -> Any:
        return (many if located.kind is Kind.LIST else only(member)).read(located)

    return ValueType(f"{many.description}, or one", read)


def only(member: ValueType) -> ValueType:
    """Return a type that reads one value as a tuple of one."""
    return ValueType(member.description, lambda located: (member.read(located),))


def map_of(member: ValueType, at_most: int = 1000) -> ValueType:
    """Return a type that reads a map with any names, each value as a `member`."""

    def read(located: LocatedValue) -> dict[str, object]:
        expect(located, "a map", Kind.MAP)
        if len(located.tree.pairs) > at_most:
            raise located.error("out_of_range", f"expected at most {at_most} entries")
        values = read_all(member.read, (each for _name, each in located.members()))
        return dict(zip(located.tree.pairs, values, strict=True))

    return ValueType(f"map to {member.description}", read)


def read_all(read: Callable[[LocatedValue], Any], values: Iterable[LocatedValue]) -> list[Any]:
    """Read every value; raise InvalidValue at the end when one failed."""
    made: list[Any] = []
    failed: InvalidValue | None = None
    for located in values:
        try:
            made.append(read(located))
        except InvalidValue as error:
            failed = error
    if failed:
        raise failed
    return made


def glob(written: str) -> str:
    """Return a pattern; raise BadGlob."""
    check_glob(written)
    return written


FLAG: Final = ValueType("bool", lambda located: expect(located, "a bool", Kind.BOOL) == "true")
COUNT: Final = whole()
GLOB: Final = parsed_text("glob", glob, code="bad_glob")
TEXT: Final = text()
OPTIONAL_TEXT: Final = text(pattern=r"[\s\S]*")
NAME: Final = text("a name")
ENVIRONMENT: Final = text(f"an environment ({ENVIRONMENT_PATTERN})", ENVIRONMENT_PATTERN)
TAG: Final = text("a tag ([a-z0-9][a-z0-9-]{0,30}, or empty for none)", TAG_PATTERN)
HEADER: Final = text("a header name", r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
HOST: Final = text("a host", r"[A-Za-z0-9._:-]{1,253}|\[[0-9A-Fa-f:.]+\]")
_HOST_PORT: Final = text(
    "host or host:port", r"(?:[A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?"
)
HOSTS: Final = list_of(_HOST_PORT, at_least=1, at_most=50)
PORT: Final = whole(1, 65_535)
URL: Final = parsed_text("URL", http_url)
RISKY: Final = "true warns `risky_setting`"  # descriptions that several fields share
UNVERIFIED: Final = "false warns `risky_setting`"
PATH_OR_PEM: Final = "Path or PEM"
