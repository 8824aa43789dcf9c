"""The functions of templates; their signatures are in `surfaces` (reference: control-plane 18.6).

A function takes the scope of a call and its arguments, never fails but by AnswerTooLarge, and
returns a value, MISSING where it has none.
"""

from __future__ import annotations

import base64
import math
import random
import re
import string
from calendar import monthrange
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any, Final
from urllib.parse import quote

import msgspec

from kernel import clock
from mocks.model.paths import MISSING
from mocks.templates.coercions import FAILED, coerce
from mocks.templates.scope import AnswerTooLarge, Scope, Value
from surfaces.body_queries import compile_query
from surfaces.invented_values import invent_value
from surfaces.template_expressions import FAKER, FUNCTIONS

MAX_RESULT: Final = 64 * 2**10  # characters
MAX_DRAWN: Final = 10_000  # of a random text
MAX_SEARCHED: Final = 2**20
_LARGEST: Final = 2**31 - 1
_OFFSET: Final = re.compile(r"\s*([+-]?\d{1,9})\s*([a-z]+?)s?\s*", re.ASCII | re.IGNORECASE)
_SECONDS: Final = {"second": 1, "minute": 60, "hour": 3_600, "day": 86_400, "week": 604_800}
_MONTHS: Final = {"month": 1, "year": 12}
_LAYOUT: Final = re.compile(
    r"'([^']*)'|yyyy|YYYY|yy|MMMM|MMM|MM|M|dd|DD|d|HH|H|hh|h|mm|m|ss|SSS|s|a|EEEE|EEE|XXX|Z",
    re.ASCII,
)
_ALPHABETS: Final[Mapping[str, str]] = {
    "ALPHANUMERIC": string.ascii_lowercase + string.digits,
    "ALPHABETIC": string.ascii_lowercase,
    "NUMERIC": string.digits,
    "HEXADECIMAL": "0123456789abcdef",
    "ALPHANUMERIC_AND_SYMBOLS": string.ascii_lowercase + string.digits + string.punctuation,
}
_INTEGER: Final = 0x7FFFFFFFFFFFFFFF


def make_uuid(rng: random.Random) -> str:
    """Return a UUIDv4."""
    bits = rng.getrandbits(128) & ~(0xF000 << 64) & ~(0xC000 << 48) | 4 << 76 | 2 << 62
    text = f"{bits:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def format_time(time: datetime, layout: str) -> str:
    """Return a time as the letters of Java, date-fns and Moment say it; quoted text stays."""

    def piece(found: re.Match[str]) -> str:
        word = found[0]
        if word[0] == "'":
            return found[1] or "'"
        if word == "SSS":
            return f"{time.microsecond // 1000:03d}"
        made = time.strftime(_PIECES[word])
        return made.lstrip("0") or "0" if word in "MdHhms" else made

    return _LAYOUT.sub(piece, layout)


_PIECES: Final[Mapping[str, str]] = {
    "yyyy": "%Y", "YYYY": "%Y", "yy": "%y", "MMMM": "%B", "MMM": "%b", "MM": "%m", "M": "%m",
    "dd": "%d", "DD": "%d", "d": "%d", "HH": "%H", "H": "%H", "hh": "%I", "h": "%I", "mm": "%M",
    "m": "%M", "ss": "%S", "s": "%S", "a": "%p", "EEEE": "%A", "EEE": "%a", "XXX": "Z", "Z": "%z",
}  # fmt: skip


def _shift_time(time: datetime, offset: str) -> datetime | None:
    """Return a time plus `3 days`, `-1 month`; None for a text that is not an offset."""
    found = _OFFSET.fullmatch(offset)
    amount, unit = (int(found[1]), found[2].lower()) if found else (0, "")
    try:
        if unit in _SECONDS:
            return time + timedelta(seconds=amount * _SECONDS[unit])
        if unit in _MONTHS:
            year, month = divmod(time.year * 12 + time.month - 1 + amount * _MONTHS[unit], 12)
            last = monthrange(year, month + 1)[1]
            return time.replace(year=year, month=month + 1, day=min(time.day, last))
    except (OverflowError, ValueError):
        return time
    return None


def _now(scope: Scope, offset: Any, layout: Any) -> Any:
    shift, form = scope.text(offset), scope.text(layout)
    now = clock.now()
    moved = _shift_time(now, shift) if shift else now
    if moved is None:
        moved, form = now, form or shift  # a format alone, as Mockoon has it
    if form in ("epoch", "unix"):
        seconds = moved.timestamp()
        return int(seconds * 1_000) if form == "epoch" else int(seconds)
    return format_time(moved, form) if form else clock.rfc3339(moved)


def _number(_scope: Scope, value: Any) -> Any:
    found = coerce(value, "number") if value is not MISSING else FAILED
    return MISSING if found is FAILED else found


def _boolean(_scope: Scope, value: Any) -> Any:
    found = coerce(value, "boolean") if value is not MISSING else FAILED
    return MISSING if found is FAILED else found


def _whole(scope: Scope, value: Any, default: int) -> int:
    number = _number(scope, value)
    return default if number is MISSING else int(max(-_INTEGER, min(_INTEGER, number)))


def _random_int(scope: Scope, lower: Any, upper: Any) -> int:
    low = _whole(scope, lower, 0)
    high = _whole(scope, upper, max(low, _LARGEST))
    return scope.rng.randint(min(low, high), max(low, high))


def _random_value(scope: Scope, length: Any, kind: Any, uppercase: Any) -> str:
    wanted = scope.text(kind).upper() or "ALPHANUMERIC"
    if wanted == "UUID":
        made = make_uuid(scope.rng)
    else:
        letters = _ALPHABETS.get(wanted, _ALPHABETS["ALPHANUMERIC"])
        count = max(0, min(MAX_DRAWN, _whole(scope, length, 36)))
        made = "".join(scope.rng.choices(letters, k=count))
    return made.upper() if _boolean(scope, uppercase) is True else made


def _pick(scope: Scope, *options: Any) -> Any:
    listed = options[0] if len(options) == 1 and isinstance(options[0], list) else options
    return scope.rng.choice(listed) if listed else MISSING


def _counter(scope: Scope, name: Any) -> Any:
    return scope.counters.get(scope.text(name), MISSING)


def _of_text(change: Callable[[str], str]) -> Callable[..., Any]:
    return lambda scope, value: change(_check_length(scope.text(value)))


def _check_length(text: str) -> str:
    if len(text) > MAX_RESULT:
        raise AnswerTooLarge(f"a function of a template takes and makes {MAX_RESULT // 1024} KiB")
    return text


def _base64(scope: Scope, value: Any, decode: Any) -> str:
    text = _check_length(scope.text(value))
    if _boolean(scope, decode) is True:
        return _decode_base64(text)
    return base64.b64encode(text.encode(errors="replace")).decode()


def _decode_base64(text: str) -> str:
    raw = re.sub(r"[^A-Za-z0-9+/]", "", text.replace("-", "+").replace("_", "/"))
    raw = raw[: len(raw) - (len(raw) % 4 == 1)]  # a letter alone is not a byte
    return base64.b64decode(raw + "=" * (-len(raw) % 4)).decode(errors="replace")


def _size(_scope: Scope, value: Any) -> int:
    return len(value) if isinstance(value, str | list | dict) else 0


def _math(scope: Scope, first: Any, operator: Any, second: Any) -> Any:
    one, other = _number(scope, first), _number(scope, second)
    compute = _OPERATIONS.get(scope.text(operator))
    if compute is None or one is MISSING or other is MISSING:
        return MISSING
    try:
        made = compute(one, other)
    except (ArithmeticError, ValueError):
        return MISSING
    if isinstance(made, float):
        return (int(made) if made.is_integer() else made) if math.isfinite(made) else MISSING
    return made if abs(made) <= _INTEGER else MISSING


_OPERATIONS: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "+": lambda one, other: one + other,
    "-": lambda one, other: one - other,
    "*": lambda one, other: one * other,
    "/": lambda one, other: one / other,
    "%": lambda one, other: one % other,
}


def _json_path(scope: Scope, value: Any, path: Any) -> Any:
    if isinstance(value, str):
        try:
            value = msgspec.json.decode(value)
        except (ValueError, RecursionError):
            return MISSING
    if len(scope.request.raw_body) > MAX_SEARCHED:
        return MISSING
    found = compile_query("jsonPath", path)(value)
    return (found[0] if len(found) == 1 else list(found)) if found else MISSING


def _xpath(scope: Scope, value: Any, path: Any) -> Any:
    found = compile_query("xpath", path)(scope.text(value).encode(errors="replace"))
    return (found[0] if len(found) == 1 else list(found)) if found else MISSING


_CALLS: Final[Mapping[str, Callable[..., Any]]] = {
    "now": _now,
    "uuid": lambda scope: make_uuid(scope.rng),
    "randomInt": _random_int,
    "randomValue": _random_value,
    "pick": _pick,
    "counter": _counter,
    "upper": _of_text(str.upper),
    "lower": _of_text(str.lower),
    "trim": _of_text(str.strip),
    "capitalize": _of_text(lambda text: text[:1].upper() + text[1:]),
    "urlEncode": _of_text(lambda text: quote(text, safe="", errors="replace")),
    "base64": _base64,
    "base64decode": _of_text(_decode_base64),
    "string": _of_text(str),
    "number": _number,
    "boolean": _boolean,
    "json": lambda _scope, value: value,
    "size": _size,
    "math": _math,
    "jsonPath": _json_path,
    "xPath": _xpath,
}
assert _CALLS.keys() == FUNCTIONS.keys(), "each function has a signature"


def compile_call(name: str, arguments: list[Value]) -> Value:
    """Return what calls a function; the value of each call is counted."""
    if name.startswith("faker."):
        return _compile_faker(name.removeprefix("faker."))
    function = _CALLS[name]

    def call(scope: Scope) -> Any:
        made = function(scope, *[argument(scope) for argument in arguments])
        if isinstance(made, str):
            return _check_length(made)
        return scope.count_value(made)

    return call


def _compile_faker(kind: str) -> Value:
    assert kind in FAKER
    return lambda scope: invent_value(kind, scope.rng)
