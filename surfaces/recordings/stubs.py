"""Mocks that were written for another tool, as mock files of a suite.

Readers of other tools make stubs; what they cannot say is named in `left_out` of the files.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from kernel.ids import slug
from readers import Unreadable
from readers.json import is_text, read_json
from surfaces.contracts import identifier
from surfaces.recordings.calls import free_name
from surfaces.recordings.mock_files import OPENING, Document, MockFiles
from surfaces.template_expressions import NoExpression, parse_expression, template_problems
from surfaces.template_paths import EXPRESSION

MAX_STUBS: Final = 5_000
MAX_SAID: Final = 200  # reasons that name their stub


class StubUnsupported(Exception):
    """A stub asks for something that no example can; the text says what."""


@dataclass(frozen=True, slots=True)
class Stub:
    """An example of an operation, as an example file has it, and what it adds to the metadata."""

    method: str
    template: str
    name: str
    example: Document
    spec: Document = field(default_factory=dict)


@dataclass(slots=True)
class Stubs:
    """The stubs of a file in the order in which they answer, and what is not in them."""

    title: str = ""
    stubs: list[Stub] = field(default_factory=list)
    said: dict[str, None] = field(default_factory=dict)

    def say(self, where: str, what: str) -> None:
        """Note what a stub loses, or that it is left out."""
        text = f"{where}: {what}"
        named = text if len(self.said) < MAX_SAID else "further stubs lose something"
        self.said["".join(filter(str.isprintable, named))[:300]] = None

    def add_to(self, made: MockFiles, surface: str, *, source: str) -> None:
        """Add the mock files of all stubs."""
        home = identifier(surface or slug(self.title), "default")
        groups: dict[tuple[str, str], list[Stub]] = {}
        for stub in self.stubs:
            groups.setdefault((stub.method, stub.template), []).append(stub)
        for (method, template), group in groups.items():
            if made.has_room(len(group)):
                made.add_operation(
                    home, method, template, self._examples(group), note=f"imported: {source}",
                    spec=self._spec(f"{method} {template}", group),
                )  # fmt: skip
        made.left_out.update(self.said.keys())

    def _examples(self, group: Iterable[Stub]) -> Document:
        made: Document = {}
        for stub in group:
            made[free_name(stub.name.strip()[:80] or "example", made)] = stub.example
        return made

    def _spec(self, where: str, group: Iterable[Stub]) -> Document:
        """Return the metadata of an operation; what its stubs do not agree on is said."""
        made: Document = {}
        for stub in group:
            for key, value in stub.spec.items():
                if key == "state" and key in made:
                    _merge_states(made, value, lambda what: self.say(where, what))
                elif made.setdefault(key, value) != value:
                    self.say(where, f"one {key} for all its examples, not {_short(value)}")
        return made


def _merge_states(made: Document, value: Any, say: Callable[[str], None]) -> None:
    first: Any = made["state"]
    if first["lookupKeyTemplate"] != value["lookupKeyTemplate"]:
        say(f"a second scenario, {value['lookupKeyTemplate']}; an operation has one")
    else:
        made["state"] = {**first, "transitions": [*first["transitions"], *value["transitions"]]}


def _short(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)[:80]


def translate(value: Any, expression: Callable[[str], str], say: Callable[[str], None]) -> Any:
    """Return a body or text of templates; `expression` makes ours of what stands in braces.

    What our templates do not know stays as text, and is said.
    """
    if isinstance(value, str):
        return _BRACES.sub(lambda found: _translate_expression(found, expression, say), value)
    if isinstance(value, dict):
        return {key: translate(each, expression, say) for key, each in value.items()}
    return (
        [translate(each, expression, say) for each in value] if isinstance(value, list) else value
    )


_BRACES: Final = re.compile(r"\{\{\{?([^{}]{0,500})\}?\}\}")


def _translate_expression(
    found: re.Match[str], expression: Callable[[str], str], say: Callable[[str], None]
) -> str:
    inner = expression(found[1].strip())
    made = f"{{{{{inner}}}}}"
    if _is_template(made, inner):
        return made
    say(f"the template {found[0][:80]} has no equal and stays as text")
    return found[0].replace("{{", OPENING)


def _is_template(text: str, inner: str) -> bool:
    """Return whether a text is one expression that may have a value."""
    try:
        parse_expression(inner)
    except NoExpression:
        return False
    return EXPRESSION.fullmatch(text) is not None and not any(template_problems(text))


def parse_json(text: str) -> Any:
    """Return the value of a JSON object or array, None for any other text."""
    try:
        return read_json(text.encode()) if text.lstrip()[:1] in ("{", "[") else None
    except (Unreadable, UnicodeEncodeError):
        return None


def body_value(text: str) -> Any:
    """Return a body as it is written in a file: JSON as its value, anything else as a text."""
    parsed = parse_json(text)
    return text if parsed is None else parsed


def decode_text(content: bytes | None) -> str | None:
    """Return the text of a file, None for what is none."""
    try:
        text = (content or b"").decode()
    except UnicodeDecodeError:
        return None
    return text if is_text(text) else None


def base64_text(value: Any) -> str | None:
    """Return the text that is written in base64, None where it is none."""
    try:
        return decode_text(base64.b64decode(value, validate=False))
    except (binascii.Error, TypeError, ValueError):
        return None


def mapping_at(value: Any, name: str) -> Mapping[str, Any]:
    """Return a member that should be a mapping, {} otherwise."""
    found = value.get(name) if isinstance(value, dict) else None
    return found if isinstance(found, dict) else {}
