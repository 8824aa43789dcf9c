"""Schema examples, compiled to functions that make values (reference: control-plane 6.3)."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from kernel import clock
from kernel.errors import FieldError, PlatformError
from mocks.model.paths import MISSING
from mocks.templates.coercions import FAILED, coerce
from mocks.templates.expressions import compile_path
from mocks.templates.functions import make_uuid
from mocks.templates.scope import MAX_RENDERED, AnswerTooLarge, Names, Scope, Value
from mocks.templates.templates import TextTemplate
from readers.json import escape_pointer
from surfaces.value_nodes import Compose, Generator, Resolve, ValueNode

_ALPHANUMERIC: Final = "abcdefghijklmnopqrstuvwxyz0123456789"
_TO_ALPHANUMERIC: Final = bytes(ord(_ALPHANUMERIC[n % len(_ALPHANUMERIC)]) for n in range(256))
_LAYOUT: Final = re.compile("yyyy|SSS|MM|dd|HH|mm|ss")
_DEFAULTS: Final[Mapping[str, Any]] = {
    "string": "", "integer": 0, "number": 0.0, "boolean": False, "null": None,
}  # fmt: skip


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
        value = given[0] if found is FAILED else found
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
        if found is FAILED:
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
    "uuid": lambda _source: make_uuid,
    "timestamp": _timestamp,
    "int": _integer,
    "string": _string,
    "pick": _pick,
    "boolean": _boolean,
}
