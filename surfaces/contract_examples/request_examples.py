"""Examples of an operation's requests by name, which belong to the responses of the same name.

The names are paired as Microcks does it. (reference: control-plane 6.2)
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cached_property
from itertools import islice
from typing import Any, Final

from surfaces.contract_examples.text_examples import intended_value
from surfaces.json_documents import JsonDocuments, Located
from surfaces.model import Condition, Message
from surfaces.schemas import as_text, is_json

MAX_PARAMETERS: Final = 50
MAX_CONDITIONS: Final = 20  # of an example
_MAX_DEPTH: Final = 4  # of a body's members
_MAX_VALUE: Final = 500  # characters of a condition


class RequestExamples:
    def __init__(self, documents: JsonDocuments, item: Located, operation: Located) -> None:
        self.documents = documents
        self._item = item
        self._operation = operation

    @cached_property
    def parameters(self) -> list[Located]:
        """The parameters; those of the operation win."""
        found: dict[tuple[str, str], Located] = {}
        for owner in (self._item, self._operation):
            for each in owner.items("parameters")[:MAX_PARAMETERS]:
                place = self.documents.resolve(Located(each, owner.file))
                source, name = place.get("in").value, place.get("name").value
                if isinstance(name, str) and source in ("path", "query", "header"):
                    found[source, name] = place
        return list(found.values())

    @cached_property
    def _bodies(self) -> dict[str, object]:
        request = self.documents.resolve(self._operation.get("requestBody"))
        found: dict[str, object] = {}
        for kind, media in request.members("content").items():
            place = Located(media, request.file)
            for name, each in islice(place.members("examples").items(), MAX_PARAMETERS):
                example = self.documents.resolve(Located(each, request.file))
                if isinstance(example.value, dict) and "value" in example.value:
                    value = example.value["value"]
                    if is_json(kind):
                        value = intended_value(self.documents, value, place.get("schema"))
                    found.setdefault(name, value)
        return found

    def conditions(self, name: str) -> tuple[Condition, ...]:
        """Return what a request has that is like the example of this name."""
        return tuple(islice(self._conditions(name), MAX_CONDITIONS))

    def message(self, name: str) -> Message:
        """Return the request's example of this name, as far as it has one."""
        headers = {
            place.value["name"]: as_text(value)
            for place, value in self._values(name)
            if place.value["in"] == "header"
        }
        body = self._bodies.get(name)
        if body is None:
            return Message(headers=headers)
        text = body if isinstance(body, str) else json.dumps(body, indent=2, ensure_ascii=False)
        return Message(headers=headers, body=text)

    def _values(self, name: str) -> Iterator[tuple[Located, Any]]:
        for place in self.parameters:
            each = Located(place.members("examples").get(name), place.file)
            example = self.documents.resolve(each)
            if isinstance(example.value, dict) and example.value.get("value") is not None:
                yield place, example.value["value"]

    def _conditions(self, name: str) -> Iterator[Condition]:
        for place, value in self._values(name):
            if not isinstance(value, dict | list) and len(as_text(value)) <= _MAX_VALUE:
                yield Condition(
                    source=place.value["in"], param=place.value["name"], value=as_text(value)
                )
        for param, value in leaves(self._bodies.get(name)):
            yield Condition(source="body", param=param, value=value)


def leaves(value: Any, path: str = "", depth: int = 0) -> Iterator[tuple[str, str]]:
    """Yield the scalars of a body by their dotted path."""
    if not isinstance(value, dict) or depth >= _MAX_DEPTH:
        return
    for name, each in value.items():
        if not name or (name == "$" and not path) or any(mark in name for mark in ".[]/"):
            continue  # no path leads there; one that begins with $ is JSONPath
        below = f"{path}.{name}" if path else name
        if isinstance(each, dict):
            yield from leaves(each, below, depth + 1)
        elif isinstance(each, str | int | float) and len(as_text(each)) <= _MAX_VALUE:
            yield below, as_text(each)
