"""Templates, compiled once to constant parts and functions (reference: control-plane 18.6).

    template = { text | "{{" expr "}}" } ; expr = alt { "||" alt } ; alt = quoted | path

What between braces is no expression is text. What the space and the operation say (`suite`,
`operation`, `execution`) is put in while compiling. A rendered value is never rendered again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from mocks.model.paths import MISSING, json_text, value_at
from mocks.templates.scope import MAX_RENDERED, AnswerTooLarge, Names, Scope, Text, Value
from surfaces.template_paths import EXPRESSION, QUOTED, NoExpression, Step, alternatives, parse_path

JSON: Final = "application/json"
MAX_EXPRESSIONS: Final = 1_000  # of a template
_LONG: Final = 64 * 2**10  # characters from which on a text is not looked through for a blank one
_JSON_STRING: Final = re.compile(r'"(?:[^"\\]|\\.)*"')


class TemplateInvalid(ValueError):
    """A template that breaks a limit; the text says which."""


@dataclass(frozen=True, slots=True)
class PathReader:
    """Reads the value at the path of a template or of `resolve`."""

    root: str
    value: Value
    text: Text


def compile_path(path: str, names: Names) -> PathReader | str:
    """Return what reads a path, or the text that it always has; an unknown path is "".

    Raise TemplateInvalid for a text that is no path.
    """
    steps = parse_path(path.strip())
    if steps is None:
        raise TemplateInvalid(f'"{path[:80]}" is not a path')
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
    """An expression whose value a request decides."""

    roots: frozenset[str]
    text: Text


def parse_template(text: str, names: Names) -> list[str | Expression]:
    """Return the parts of a template, texts side by side joined; raise TemplateInvalid."""
    if "{{" not in text:
        return [text]
    return _join_texts(_parts(text, names)) or [""]


def _parts(text: str, names: Names) -> Iterator[str | Expression]:
    at = 0
    for count, found in enumerate(EXPRESSION.finditer(text)):
        if count >= MAX_EXPRESSIONS:
            raise TemplateInvalid(f"a template has more than {MAX_EXPRESSIONS} expressions")
        yield text[at : found.start()]
        yield _expression(found[1], names, found[0])
        at = found.end()
    yield text[at:]


def _join_texts(parts: Iterable[str | Expression]) -> list[str | Expression]:
    """Return the parts with texts side by side as one; each text is copied once.

    Raise TemplateInvalid for texts that are too large even without a request.
    """
    joined: list[str | Expression] = []
    texts: list[str] = []
    room = MAX_RENDERED
    for part in parts:
        if isinstance(part, str):
            texts.append(part)
            room -= len(part)
            if room < 0:
                raise TemplateInvalid("a template makes the answer too large")
            continue
        if text := "".join(texts):
            joined.append(text)
        texts.clear()
        joined.append(part)
    if text := "".join(texts):
        joined.append(text)
    return joined


def _expression(inner: str, names: Names, whole: str) -> str | Expression:
    """Return an expression, folded to a text where no request decides; `whole` if it is none."""
    try:
        found = list(_alternatives(inner, names))
    except (TemplateInvalid, NoExpression):
        return whole
    if len(found) == 1 and isinstance(found[0], str):
        return found[0]
    readers: list[PathReader | str] = []
    for each in found:
        if isinstance(each, str) and not each.strip():
            continue
        readers.append(each)
        if isinstance(each, str):
            break  # what follows is never asked for
    if not readers:
        return ""
    if isinstance(readers[0], str):
        return readers[0]
    roots = frozenset(each.root for each in readers if isinstance(each, PathReader))
    texts = [_text_of(each) for each in readers]
    return Expression(roots, texts[0] if len(texts) == 1 else _first_of(texts))


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


def _alternatives(inner: str, names: Names) -> Iterator[PathReader | str]:
    for alternative in alternatives(inner):
        if alternative[:1] in ('"', "'"):
            if QUOTED.fullmatch(alternative) is None:
                raise NoExpression
            yield alternative[1:-1]
        else:
            yield compile_path(alternative, names)


class TextTemplate:
    """A template of a header, a key or a field. `constant` is its text if no request decides it."""

    __slots__ = ("_only", "_parts", "_slots", "constant", "roots")

    def __init__(self, text: str, names: Names) -> None:
        parts = parse_template(text, names)
        self.roots = _roots(parts)
        self.constant = parts[0] if len(parts) == 1 and isinstance(parts[0], str) else None
        self._parts = [part if isinstance(part, str) else "" for part in parts]
        self._slots = [
            (at, each.text) for at, each in enumerate(parts) if isinstance(each, Expression)
        ]
        is_one = len(parts) == len(self._slots) == 1
        self._only = self._slots[0][1] if is_one else None

    def render(self, scope: Scope) -> str:
        if self._only is not None:
            return self._only(scope)
        parts, room = self._parts.copy(), MAX_RENDERED
        for at, text in self._slots:
            made = parts[at] = text(scope)
            room -= len(made)
            if room < 0:
                raise _too_large()
        return "".join(parts)


def _too_large() -> AnswerTooLarge:
    return AnswerTooLarge("templates make the answer too large")


class BodyTemplate:
    """A template of a body, rendered to bytes.

    In a body that is JSON, every string is a template: values are inserted as JSON escapes them.
    `media_type` is "" where it depends on what is rendered.
    """

    __slots__ = ("_parts", "_slots", "constant", "media_type", "roots")

    def __init__(self, text: str, names: Names) -> None:
        is_json = "{{" in text and _is_json(text)
        self.media_type = JSON if is_json else ""
        parts = _json_parts(text, names) if is_json else parse_template(text, names)
        self.roots = _roots(parts)
        self._parts = [
            part.encode(errors="replace") if isinstance(part, str) else b"" for part in parts
        ]
        self._slots = [
            (at, _escape(each.text) if is_json else _encode(each.text))
            for at, each in enumerate(parts)
            if isinstance(each, Expression)
        ]
        self.constant = None if self._slots else b"".join(self._parts)

    def render(self, scope: Scope) -> bytes:
        parts, room = self._parts.copy(), MAX_RENDERED
        for at, text in self._slots:
            made = parts[at] = text(scope)
            room -= len(made)
            if room < 0:
                raise _too_large()
        return b"".join(parts)


def _roots(parts: list[str | Expression]) -> frozenset[str]:
    return frozenset[str]().union(*(each.roots for each in parts if isinstance(each, Expression)))


def _is_json(text: str) -> bool:
    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        return False
    return True


def _json_parts(text: str, names: Names) -> list[str | Expression]:
    parts = _join_texts(_parts_of_json(text, names))
    if sum(isinstance(part, Expression) for part in parts) > MAX_EXPRESSIONS:
        raise TemplateInvalid(f"a template has more than {MAX_EXPRESSIONS} expressions")
    return parts


def _parts_of_json(text: str, names: Names) -> Iterator[str | Expression]:
    at = 0
    for found in _JSON_STRING.finditer(text):
        if "{{" not in found[0]:
            continue
        yield text[at : found.start() + 1]
        for part in parse_template(msgspec.json.decode(found[0]), names):
            is_text = isinstance(part, str)
            yield msgspec.json.encode(part)[1:-1].decode() if is_text else part
        at = found.end() - 1
    yield text[at:]


def _escape(text: Text) -> Callable[[Scope], bytes]:
    encode = msgspec.json.encode
    return lambda scope: encode(text(scope))[1:-1]


def _encode(text: Text) -> Callable[[Scope], bytes]:
    return lambda scope: text(scope).encode(errors="replace")
