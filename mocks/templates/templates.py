"""Templates, compiled once to constant parts and functions (reference: control-plane 18.6).

    template = { text | "{{" expr "}}" } ; expr: surfaces.template_expressions

What between braces is not an expression is text. What the space and the operation say (`suite`,
`operation`, `execution`) is put in while compiling. A rendered value is never rendered again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Final

import msgspec

from mocks.model.paths import MISSING
from mocks.templates.expressions import Expression, TemplateInvalid, compile_expression
from mocks.templates.scope import MAX_RENDERED, AnswerTooLarge, Names, Scope
from surfaces.template_paths import EXPRESSION

JSON: Final = "application/json"
MAX_EXPRESSIONS: Final = 1_000  # of a template
_JSON_STRING: Final = re.compile(r'"(?:[^"\\]|\\.)*"')


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
        yield compile_expression(found[1], names, found[0])
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
        render = _as_json if is_json else _encode
        self._slots = [
            (at, render(each)) for at, each in enumerate(parts) if isinstance(each, Expression)
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
    except (ValueError, RecursionError):
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
        parts = parse_template(msgspec.json.decode(found[0]), names)
        typed = parts[0] if len(parts) == 1 and isinstance(parts[0], Expression) else None
        if typed is not None and typed.value is not None and not _IS_KEY.match(text, found.end()):
            yield text[at : found.start()]
            yield typed  # alone in its string, and it calls: its value takes the place of both
            at = found.end()
            continue
        yield text[at : found.start() + 1]
        for part in parts:
            if isinstance(part, str):
                yield msgspec.json.encode(part)[1:-1].decode()
            else:
                yield replace(part, value=None)
        at = found.end() - 1
    yield text[at:]


_IS_KEY: Final = re.compile(r"\s*:")


def _as_json(part: Expression) -> Callable[[Scope], bytes]:
    """Return what renders an expression within a JSON string, or a typed one in place of it."""
    encode, text, value = msgspec.json.encode, part.text, part.value
    if value is None:
        return lambda scope: encode(text(scope))[1:-1]

    def render(scope: Scope) -> bytes:
        made = value(scope)
        try:
            return encode(None if made is MISSING else made)
        except RecursionError:
            return b"null"

    return render


def _encode(part: Expression) -> Callable[[Scope], bytes]:
    text = part.text
    return lambda scope: text(scope).encode(errors="replace")
