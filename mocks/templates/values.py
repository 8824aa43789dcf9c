"""Schema examples, compiled to functions that make values (reference: control-plane 6.3)."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from kernel import clock
from kernel.errors import FieldError, PlatformError
from mocks.model.paths import MISSING
from mocks.templates.scope import MAX_RENDERED, AnswerTooLarge, Names, Scope, Value
from mocks.templates.templates import TextTemplate, compile_path
from readers.json import escape_pointer
from surfaces.model import Compose, Generator, Resolve, ValueNode

_ALPHANUMERIC: Final = "abcdefghijklmnopqrstuvwxyz0123456789"
_TO_ALPHANUMERIC: Final = bytes(ord(_ALPHANUMERIC[n % len(_ALPHANUMERIC)]) for n in range(256))
_NUMBER: Final = re.compile(r"-?[0-9]{1,300}(?:\.[0-9]{1,300})?(?:[eE][+-]?[0-9]{1,3})?", re.ASCII)
_LAYOUT: Final = re.compile("yyyy|SSS|MM|dd|HH|mm|ss")
_INDENTED: Final = 64 * 2**10  # bytes up to which JSON is printed over several lines
_DEFAULTS: Final[Mapping[str, Any]] = {
    "string": "", "integer": 0, "number": 0.0, "boolean": False, "null": None,
}  # fmt: skip
_FAILED: Final = object()


class NotOfType(PlatformError):
    """A value that a request decides, and that is not of its node's type."""

    code = "mock_request_invalid"

    def __init__(self, pointer: str, kind: str) -> None:
        reason = f"cannot be made of type {kind}"
        super().__init__(
            f"the response at {pointer or '/'} {reason}",
            errors=[FieldError(pointer=pointer, code="wrong_type", detail=reason)],
        )


def compile_node(node: ValueNode, names: Names, pointer: str = "") -> Value:
    """Return what makes a node's value; calls raise NotOfType. Raise TemplateInvalid."""
    if node.source is not None:
        return _coerce(_compile_node(node, names), node, pointer, _plain(node, names, pointer))
    return _plain(node, names, pointer)


def varies(node: ValueNode) -> bool:
    """Return whether a request, or chance, decides a node's value."""
    if node.source is not None:
        return True
    if node.const or node.example or node.enum:
        return False
    below = [*node.properties.values(), *([node.items] if node.items else [])]
    return any(varies(each) for each in below)


def reads_state(node: ValueNode) -> bool:
    """Return whether a node's value may depend on the state; True when in doubt."""
    return varies(node) and "state" in repr(node)


def _plain(node: ValueNode, names: Names, pointer: str) -> Value:
    """Return what makes the value that no key of the node makes."""
    given = node.const or node.example or node.enum
    if given:
        found = coerce(given[0], node.type)
        value = given[0] if found is _FAILED else found
        return lambda _scope: value
    if node.type == "object" or (not node.type and node.properties):
        parts = [
            (name, compile_node(each, names, f"{pointer}/{escape_pointer(name)}"))
            for name, each in node.properties.items()
        ]
        return lambda scope: {name: make(scope) for name, make in parts}
    if node.type == "array" or (not node.type and node.items is not None):
        if node.items is None:
            return lambda _scope: []
        item = compile_node(node.items, names, f"{pointer}/0")
        return lambda scope: [item(scope)]
    default = _DEFAULTS.get(node.type, "")
    return lambda _scope: default


def _coerce(make: Value, node: ValueNode, pointer: str, default: Value) -> Value:
    """Return a value of the node's type, `default` if a path leads to nothing."""
    kind = node.type

    def make_typed(scope: Scope) -> Any:
        value = scope.count_value(make(scope))
        if value is MISSING or (value is None and kind not in ("", "null")):
            return default(scope)
        if value == "" and kind not in ("", "string"):
            return default(scope)
        if not kind or (kind == "string" and isinstance(value, str)):
            return value
        found = coerce(value, kind)
        if found is _FAILED:
            raise NotOfType(pointer, kind)
        return found

    return make_typed


def _compile_node(node: ValueNode, names: Names) -> Value:
    source = node.source
    if isinstance(source, Generator):
        return generator(source)
    if isinstance(source, Resolve):
        return _compile_resolve(source, names)
    if isinstance(source, Compose):
        return _compile_compose(source, names)
    assert source is not None
    return TextTemplate(source.text, names).render


def _compile_resolve(source: Resolve, names: Names) -> Value:
    reader = compile_path(source.path, names)
    constant = reader if isinstance(reader, str) else None
    fallback = MISSING if source.fallback is None else source.fallback
    before, after = source.prefix, source.suffix

    def resolve(scope: Scope) -> Any:
        value = (constant or MISSING) if isinstance(reader, str) else reader.value(scope)
        if value is MISSING or value is None or (isinstance(value, str) and not value.strip()):
            value = fallback if fallback is not MISSING else value
        if value is MISSING or not (before or after):
            return value
        return f"{before}{scope.text(value)}{after}"

    return resolve


def _compile_compose(source: Compose, names: Names) -> Value:
    parts: list[str | Value] = []
    for part in source.parts:
        if isinstance(part, Resolve):
            parts.append(_compile_resolve(part, names))
        else:
            parts.append(part if isinstance(part, str) else generator(part))

    def compose(scope: Scope) -> str:
        made: list[str] = []
        room = MAX_RENDERED
        for part in parts:
            made.append(part if isinstance(part, str) else scope.text(part(scope)))
            room -= len(made[-1])
            if room < 0:
                raise AnswerTooLarge("the request makes the answer too large")
        return "".join(made)

    return compose


def generator(source: Generator) -> Value:
    """Return what generates a value; with prefix or suffix it is a text."""
    make = _GENERATORS[source.kind](source)
    before, after = source.prefix, source.suffix
    if not (before or after):
        return lambda scope: make(scope.rng)
    return lambda scope: f"{before}{_text(make(scope.rng))}{after}"


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _uuid(_source: Generator) -> Callable[[random.Random], str]:
    def make_uuid(rng: random.Random) -> str:
        bits = rng.getrandbits(128) & ~(0xF000 << 64) & ~(0xC000 << 48) | 4 << 76 | 2 << 62
        text = f"{bits:032x}"
        return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"

    return make_uuid


def _timestamp(source: Generator) -> Callable[[random.Random], str]:
    layout = source.layout

    def format_now(_rng: random.Random) -> str:
        now = clock.now()
        words = {
            "yyyy": f"{now.year:04d}", "MM": f"{now.month:02d}", "dd": f"{now.day:02d}",
            "HH": f"{now.hour:02d}", "mm": f"{now.minute:02d}", "ss": f"{now.second:02d}",
            "SSS": f"{now.microsecond // 1000:03d}",
        }  # fmt: skip
        return _LAYOUT.sub(lambda found: words[found[0]], layout)

    return format_now if layout else lambda _rng: clock.rfc3339(clock.now())


def _integer(source: Generator) -> Callable[[random.Random], int]:
    low, high = source.minimum, source.maximum
    return lambda rng: rng.randint(low, high)


def _string(source: Generator) -> Callable[[random.Random], str]:
    length = source.length
    return lambda rng: rng.randbytes(length).translate(_TO_ALPHANUMERIC).decode()


def _pick(source: Generator) -> Callable[[random.Random], str]:
    options = source.options
    return lambda rng: rng.choice(options)


def _boolean(_source: Generator) -> Callable[[random.Random], bool]:
    return lambda rng: rng.random() < 0.5  # noqa: PLR2004 - a coin


_GENERATORS: Final[Mapping[str, Callable[[Generator], Callable[[random.Random], Any]]]] = {
    "uuid": _uuid,
    "timestamp": _timestamp,
    "int": _integer,
    "string": _string,
    "pick": _pick,
    "boolean": _boolean,
}


def coerce(value: Any, kind: str) -> Any:
    """Return a value as one of a type; a mark that is none of them if that is impossible."""
    return _COERCIONS[kind](value) if kind else value


def is_coerced(value: Any) -> bool:
    return value is not _FAILED


def _to_string(value: Any) -> Any:
    return value if isinstance(value, str) else body_text(value)


def _to_number(value: Any) -> Any:
    if isinstance(value, bool):
        return _FAILED
    if isinstance(value, int | float):
        return value if math.isfinite(value) else _FAILED
    if not isinstance(value, str) or _NUMBER.fullmatch(text := value.strip()) is None:
        return _FAILED
    if text.lstrip("-").isdecimal():
        return int(text)
    number = float(text)
    return number if math.isfinite(number) else _FAILED


def _to_integer(value: Any) -> Any:
    number = _to_number(value)
    if isinstance(number, float):
        return int(number) if number.is_integer() else _FAILED
    return number


def _to_boolean(value: Any) -> Any:
    if isinstance(value, bool):
        return value
    text = value.strip().lower() if isinstance(value, str) else ""
    return text == "true" if text in ("true", "false") else _FAILED


def _to_null(value: Any) -> Any:
    is_null = value is None or (isinstance(value, str) and value.strip() in ("", "null"))
    return None if is_null else _FAILED


def _to_container(kind: type) -> Callable[[Any], Any]:
    def container(value: Any) -> Any:
        if isinstance(value, str):
            try:
                value = msgspec.json.decode(value)
            except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
                return _FAILED
        return value if isinstance(value, kind) else _FAILED

    return container


_COERCIONS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "string": _to_string,
    "number": _to_number,
    "integer": _to_integer,
    "boolean": _to_boolean,
    "null": _to_null,
    "object": _to_container(dict),
    "array": _to_container(list),
}


def body_text(value: Any) -> str:
    """Return a value as a body shows it: a text as it is, objects and arrays as 2-space JSON."""
    if isinstance(value, str):
        return value
    try:
        made = msgspec.json.encode(value)
        if isinstance(value, dict | list) and len(made) <= _INDENTED:
            made = msgspec.json.format(made, indent=2)
    except RecursionError:
        raise AnswerTooLarge("the response is nested too deep") from None
    return made.decode()
