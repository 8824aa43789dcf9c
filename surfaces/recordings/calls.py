"""A recorded call: what was asked and answered, in the form that all recordings have."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import parse_qsl, unquote, urlsplit

from readers.json import is_text

MAX_CALLS: Final = 5_000
MAX_BODY: Final = 2**20  # characters
MAX_PAIRS: Final = 200  # headers, query parameters
MAX_NAMED: Final = 20  # reasons that name their call
Pairs = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedCall:
    """`path` is decoded by no one yet; `template` is its form with `{name}` where that is known.

    `params` are values of the template. `surface` names the API, such as the host.
    """

    method: str
    path: str
    status: int
    surface: str = ""
    name: str = ""
    template: str = ""
    params: Pairs = ()
    query: Pairs = ()
    request_headers: Pairs = ()
    request_body: str = ""
    response_headers: Pairs = ()
    response_body: str = ""

    @property
    def is_text(self) -> bool:
        """Return whether all of its strings can be written to a file."""
        pairs = (*self.params, *self.query, *self.request_headers, *self.response_headers)
        texts = (self.method, self.path, self.surface, self.name, self.template)
        bodies = (self.request_body, self.response_body)
        return all(map(is_text, (*texts, *bodies, *(text for pair in pairs for text in pair))))


@dataclass(slots=True)
class Recording:
    """The calls of a file, and how many of them were left out, by the reason."""

    title: str = ""
    calls: list[RecordedCall] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)

    def add(self, call: RecordedCall) -> None:
        if not call.is_text:
            shown = f"{call.method} {call.surface}{call.path}"[:200]
            shown = shown.encode(errors="replace").decode().replace("\0", "?")
            named = len(self.left_out) < MAX_NAMED
            which = shown if named else "a further call"
            self.left_out[f"{which}: a string holds NUL or half of a surrogate pair"] += 1
        elif len(self.calls) >= MAX_CALLS:
            self.left_out[f"more than {MAX_CALLS} calls"] += 1
        elif max(len(call.request_body), len(call.response_body)) > MAX_BODY:
            self.left_out["the body is larger than 1 MiB"] += 1
        else:
            self.calls.append(call)


def header(pairs: Iterable[tuple[str, str]], name: str) -> str:
    """Return the first header of a name (in lower case), or ""."""
    return next((value for key, value in pairs if key.lower() == name), "")


def split_url(url: str) -> tuple[str, str, Pairs]:
    """Return host, path and query of an absolute or relative URL."""
    try:
        parts = urlsplit(url)
        query = tuple(parse_qsl(parts.query, keep_blank_values=True, max_num_fields=MAX_PAIRS))
        return parts.netloc.rpartition("@")[2], parts.path or "/", query
    except ValueError:
        return "", "/", ()


def decode_segment(segment: str) -> str:
    return unquote(segment, errors="replace")


def text_at(value: Any, name: str) -> str:
    """Return a text of a mapping from outside, "" for anything else."""
    found = value.get(name) if isinstance(value, dict) else None
    return found if isinstance(found, str) else ""


def json_value(text: str) -> Any:
    """Return the value of a JSON object or array, None for any other text."""
    try:
        return json.loads(text) if text.lstrip()[:1] in ("{", "[") else None
    except (ValueError, RecursionError):
        return None


def free_name(name: str, taken: Container[str], joint: str = "-") -> str:
    """Return a name that is not taken: the name itself, or with a number behind it."""
    made, number = name, 2
    while made in taken:
        made, number = f"{name}{joint}{number}", number + 1
    return made


def list_at(value: Any, name: str) -> Sequence[Any]:
    found = value.get(name) if isinstance(value, dict) else None
    return found if isinstance(found, list) else ()


def pairs_at(value: Any, name: str, key: str) -> Pairs:
    """Return the `{key, value}` entries of a list as pairs, without disabled ones."""
    return tuple(
        (text_at(each, key), text_at(each, "value"))
        for each in list_at(value, name)[:MAX_PAIRS]
        if text_at(each, key) and not (isinstance(each, dict) and each.get("disabled") is True)
    )
