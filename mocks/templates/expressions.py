"""Expressions of templates and paths of `resolve`, compiled to functions (control-plane 18.6)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from mocks.model.paths import MISSING, json_text, value_at
from mocks.templates.functions import compile_call
from mocks.templates.scope import Names, Scope, Text, Value
from surfaces.template_expressions import Literal, Node, NoExpression, Path, parse_expression
from surfaces.template_paths import Step, parse_path

_LONG: Final = 64 * 2**10  # characters from which on a text is not looked through for a blank one
_MAX_COUNTER: Final = 200  # characters of the name of a counter


class TemplateInvalid(ValueError):
    """A template that breaks a limit; the text says which."""


@dataclass(frozen=True, slots=True)
class PathReader:
    """Reads the value at the path of a template or of `resolve`, or makes that of a call."""

    root: str
    value: Value
    text: Text
    roots: frozenset[str] = frozenset()  # of the arguments of a call


def compile_path(path: str, names: Names) -> PathReader | str:
    """Return what reads a path, or the text that it always has; an unknown path is "".

    Raise TemplateInvalid for a text that is not a path.
    """
    steps = parse_path(path.strip())
    if steps is None:
        raise TemplateInvalid(f'"{path[:80]}" is not a path')
    return _compile_steps(steps, names)


def _compile_steps(steps: tuple[Step, ...], names: Names) -> PathReader | str:
    root, below = steps[0], steps[1:]
    if root in ("suite", "operation", "execution"):
        known: Mapping[str, str] = getattr(names, str(root))
        return known.get(str(below[0]), "") if len(below) == 1 else ""
    if root == "state":
        return _entry("state", lambda scope: scope.state, below)
    if root == "match" and below == ("example",):
        return PathReader("match", lambda scope: scope.example, lambda scope: scope.example)
    if root == "response" and below[:1] == ("body",):
        return _response(below[1:])
    return _request(below) if root == "request" and below else ""


def _request(steps: tuple[Step, ...]) -> PathReader | str:
    name, below = steps[0], steps[1:]
    if name == "body":
        return _deep("request", lambda scope: scope.request.body, below)
    if name in _MAPS:
        if name == "headers" and below:
            below = (str(below[0]).lower(), *below[1:])
        return _entry("request", _MAPS[name], below)
    plain = None if below else _PLAIN.get(name)
    return "" if plain is None else PathReader("request", plain, plain)


_MAPS: Final[Mapping[Step, Callable[[Scope], Mapping[str, str]]]] = {
    "path": lambda scope: scope.request.params,
    "query": lambda scope: scope.request.query,
    "headers": lambda scope: scope.request.headers,
}
_PLAIN: Final[Mapping[Step, Text]] = {
    "method": lambda scope: scope.request.method,
    "rawBody": lambda scope: scope.raw_text,
}


def _entry(
    root: str, of: Callable[[Scope], Mapping[str, str]], steps: tuple[Step, ...]
) -> PathReader | str:
    """Return the reader of a map of texts: of one text, or of the whole."""
    if not steps:
        return PathReader(root, lambda scope: dict(of(scope)), lambda scope: _whole(of(scope)))
    if len(steps) > 1:
        return ""
    name = str(steps[0])
    return PathReader(
        root,
        lambda scope: of(scope).get(name, MISSING),
        lambda scope: of(scope).get(name, ""),
    )


def _whole(found: Mapping[str, str]) -> str:
    return json_text(dict(found)) if found else ""


def _deep(root: str, of: Value, steps: tuple[Step, ...]) -> PathReader:
    if not steps:
        return PathReader(root, of, lambda scope: scope.text(of(scope)))
    return PathReader(
        root,
        lambda scope: value_at(of(scope), steps),
        lambda scope: scope.text(value_at(of(scope), steps)),
    )


def _response(steps: tuple[Step, ...]) -> PathReader:
    if steps:
        return _deep("response", lambda scope: scope.response_value, steps)

    return PathReader("response", _response_text, _response_text)


def _response_text(scope: Scope) -> str:
    return scope.response_text


@dataclass(frozen=True, slots=True)
class Expression:
    """An expression whose value a request decides; `value` is there for one that calls."""

    roots: frozenset[str]
    text: Text
    value: Value | None = None


def compile_expression(inner: str, names: Names, whole: str) -> str | Expression:
    """Return an expression, folded to a text where no request decides; `whole` if it is none."""
    try:
        found = [_compile_node(each, names) for each in parse_expression(inner)]
    except (TemplateInvalid, NoExpression):
        return whole
    if len(found) == 1 and isinstance(found[0], str):
        return found[0]
    readers = [each for each in found if not isinstance(each, str) or each.strip()]
    constant = next((at for at, each in enumerate(readers) if isinstance(each, str)), len(readers))
    readers = readers[: constant + 1]  # what follows is never asked for
    if not readers or isinstance(readers[0], str):
        return str(readers[0]) if readers else ""
    listed = [each for each in readers if isinstance(each, PathReader)]
    roots = frozenset(each.root for each in listed).union(*(each.roots for each in listed))
    texts = [_text_of(each) for each in readers]
    value = None
    if "" in roots:  # of a call
        values = [_value_of(each) for each in readers]
        value = values[0] if len(values) == 1 else _first_value_of(values)
    return Expression(roots, texts[0] if len(texts) == 1 else _first_of(texts), value)


def _text_of(reader: PathReader | str) -> Text:
    if isinstance(reader, PathReader):
        return reader.text
    text = reader
    return lambda _scope: text


def _first_of(texts: list[Text]) -> Text:
    def first(scope: Scope) -> str:
        for text in texts:
            made = text(scope)
            if made and (len(made) > _LONG or not made.isspace()):
                return made
        return ""

    return first


def _value_of(reader: PathReader | str) -> Value:
    if isinstance(reader, PathReader):
        return reader.value
    return lambda _scope: reader


def _first_value_of(values: list[Value]) -> Value:
    def first(scope: Scope) -> Any:
        made: Any = MISSING
        for value in values:
            made = value(scope)
            is_blank = isinstance(made, str) and (not made or made[:_LONG].isspace())
            if not is_blank and made is not MISSING and made is not None:
                return made
        return made

    return first


def _compile_node(node: Node, names: Names) -> PathReader | str:
    """Return what reads or makes the value of an alternative, or its text; "" for no function."""
    if isinstance(node, Literal):
        constant = node.value
        if isinstance(constant, str):
            return constant
        return PathReader("", lambda _scope: constant, lambda scope: scope.text(constant))
    if isinstance(node, Path):
        return _compile_steps(node.steps, names)
    if node.problem:
        return ""
    if node.name == "counter" and isinstance(node.arguments[0], Literal):
        names.counters.add(str(node.arguments[0].value)[:_MAX_COUNTER])
    arguments = [
        each.value if isinstance(each, Literal) else each and _compile_node(each, names)
        for each in node.arguments
    ]
    readers = [each for each in arguments if isinstance(each, PathReader)]
    value = compile_call(node.name, [_argument(each) for each in arguments])
    return PathReader(
        "",
        value,
        lambda scope: scope.text(value(scope)),
        frozenset(each.root for each in readers).union(*(each.roots for each in readers)),
    )


def _argument(given: object) -> Value:
    if isinstance(given, PathReader):
        return given.value
    value: object = MISSING if given is None else given
    return lambda _scope: value
