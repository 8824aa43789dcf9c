"""What schema examples look like: one deterministic sample of each.

The generated values depend on the content of the suite, the operation and the example only, so that
an answer of the API and its ETag stay the same. What a request decides is shown as a template.
"""

from __future__ import annotations

import hashlib
import json
import math
import random
import string
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from surfaces.model import Exchange, Message
from surfaces.value_nodes import Compose, Generator, Resolve, Template, ValueNode

MAX_VALUES: Final = 2_000  # of one sample
MAX_TEXT: Final = 64 * 2**10  # characters of a shown body
_ALPHANUMERIC: Final = string.ascii_lowercase + string.digits
_EPOCH: Final = datetime(2024, 1, 1, tzinfo=UTC)
_EMPTY: Final[Mapping[str, Any]] = {
    "integer": 0, "number": 0.0, "boolean": False, "null": None, "string": "", "array": [],
}  # fmt: skip


@dataclass(slots=True)
class SampleBudget:
    """What all samples of a suite may still have, so that many examples cost no more than some."""

    values: int = 200_000
    characters: int = 4 * 2**20


class Sampler:
    """Makes the samples of one example; `seed` is what its generated values depend on."""

    def __init__(self, budget: SampleBudget, *seed: str) -> None:
        self._budget = budget
        digest = hashlib.sha256("\0".join(seed).encode()).digest()
        self._random = random.Random(digest)  # noqa: S311 - not for secrets
        self._left = MAX_VALUES

    def value(self, node: ValueNode) -> Any:
        """Return a value of the node's type where it can be coerced, else its text."""
        self._left -= 1
        self._budget.values -= 1
        if self._left < 0 or self._budget.values < 0 or self._budget.characters < 0:
            return None
        if node.source is not None:
            return _coerce(self._generate(node.source), node)
        given = node.const or node.example or node.enum
        if given:
            return given[0]
        return self._by_type(node)

    def _by_type(self, node: ValueNode) -> Any:
        if node.type == "object" or (not node.type and node.properties):
            return {name: self.value(each) for name, each in node.properties.items()}
        if node.type == "array" and node.items is not None:
            return [self.value(node.items)]
        return _EMPTY.get(node.type, "")

    def _generate(self, source: Generator | Resolve | Compose | Template) -> str:
        text = self._text(source)
        self._budget.characters -= len(text)
        return text

    def _text(self, source: Generator | Resolve | Compose | Template) -> str:
        match source:
            case Generator():
                made = _GENERATORS[source.kind](source, self._random)
                return f"{source.prefix}{made}{source.suffix}"
            case Resolve():
                shown = "{{" + source.path + "}}" if source.fallback is None else source.fallback
                return f"{source.prefix}{shown}{source.suffix}"
            case Compose():
                return "".join(
                    part if isinstance(part, str) else self._text(part) for part in source.parts
                )
            case Template():
                return source.text


def _timestamp(source: Generator, random_: random.Random) -> str:
    when = _EPOCH + timedelta(seconds=random_.randrange(365 * 24 * 3600))
    if not source.layout:
        return when.strftime("%Y-%m-%dT%H:%M:%SZ")
    text = source.layout
    for word, shown in (("yyyy", "%Y"), ("SSS", "000"), ("MM", "%m"), ("dd", "%d"), ("HH", "%H"),
                        ("mm", "%M"), ("ss", "%S")):  # fmt: skip
        text = text.replace(word, when.strftime(shown))
    return text


_GENERATORS: Final[Mapping[str, Callable[[Generator, random.Random], str]]] = {
    "uuid": lambda _, random_: str(uuid.UUID(int=random_.getrandbits(128), version=4)),
    "timestamp": _timestamp,
    "int": lambda source, random_: str(random_.randint(source.minimum, source.maximum)),
    "string": lambda source, random_: "".join(random_.choices(_ALPHANUMERIC, k=source.length)),
    "pick": lambda source, random_: random_.choice(source.options),
    "boolean": lambda _, random_: random_.choice(("true", "false")),
}


def _coerce(text: str, node: ValueNode) -> Any:
    if node.type == "boolean":
        return text == "true" if text in ("true", "false") else text
    if node.type in ("integer", "number"):
        try:
            number = float(text)
        except ValueError:
            return text
        if not math.isfinite(number):
            return text
        return int(number) if node.type == "integer" or number.is_integer() else number
    return text


def shown_body(message: Message, sampler: Sampler) -> str:
    """Return the literal body, or the sample of the schema; "" without a body."""
    if message.body is not None:
        return message.body[:MAX_TEXT]
    if message.body_node is None:
        return ""
    value = sampler.value(message.body_node)
    text = value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False)
    return text[:MAX_TEXT]


def shown_headers(message: Message, sampler: Sampler) -> dict[str, str]:
    """Return the literal headers and samples of the others."""
    shown = dict(message.headers)
    for name, node in (message.headers_node.properties if message.headers_node else {}).items():
        value = sampler.value(node)
        shown.setdefault(name, value if isinstance(value, str) else json.dumps(value))
    return shown


def shown_media_type(exchange: Exchange, body: str) -> str:
    """Return the media type, chosen by the body where the example names none."""
    if exchange.media_type:
        return exchange.media_type
    start = body.lstrip()[:1]
    if not start:
        return ""
    if start == "<":
        return "application/xml"
    try:
        json.loads(body)
    except (ValueError, RecursionError):
        return "text/plain"
    return "application/json"
