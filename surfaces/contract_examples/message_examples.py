"""Examples of contracts whose operations have one kind of answer: AsyncAPI, gRPC, GraphQL.

The first example answers a call, all of them are published. (reference: control-plane 6.2)
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from surfaces.contract_examples.schema_samples import SchemaSampler
from surfaces.contract_examples.template_text import literal
from surfaces.contract_examples.text_examples import PointedValue, UnreadText, broken_example
from surfaces.json_documents import JsonDocuments, Located
from surfaces.model import Exchange, Message
from surfaces.schemas import as_text

MAX_MESSAGES: Final = 20  # of an operation
MAX_EXAMPLES: Final = 50  # of a message
MAX_BODY: Final = 2 * 2**20  # characters
_JSON: Final = "application/json"
SAMPLE: Final = "sample"


@dataclass(frozen=True, slots=True, eq=False)
class SampleExample:
    """One exchange with the sample that `make` returns."""

    path: str
    make: Callable[[], Any]

    def exchanges(self) -> tuple[Exchange, ...]:
        """Return the exchange."""
        return tuple(_exchanges(self.path, iter([(SAMPLE, {}, self.make())])))


@dataclass(frozen=True, slots=True, eq=False)
class AsyncApiExamples:
    """The messages of an operation; `place` is where it is in the document `path`."""

    documents: JsonDocuments
    path: str
    place: tuple[str, ...]

    def exchanges(self) -> tuple[Exchange, ...]:
        """Return an exchange for each example, or for a sample of each message without one."""
        found = islice(self._examples(), MAX_MESSAGES * MAX_EXAMPLES)
        return tuple(_exchanges(self.path, found))

    def broken_examples(self) -> Iterator[UnreadText]:
        """Yield the examples whose payload breaks its schema."""
        for message in self._messages():
            payload = message.get("payload").resolve(self.documents).at
            if message.at.get("schemaFormat").value or payload.get("schemaFormat").value:
                continue  # a schema of another language, perhaps
            for each in islice(message.entries("examples"), MAX_EXAMPLES):
                if isinstance(each.at.value, dict) and "payload" in each.at.value:
                    yield from broken_example(self.documents, each.get("payload"), payload)

    def _messages(self) -> Iterator[PointedValue]:
        at = PointedValue(Located(self.documents.value(self.path), self.path))
        for name in self.place:
            at = at.get(name).resolve(self.documents)
        channel = at.get("channel").resolve(self.documents)
        listed = [*at.entries("messages")] or [each for _, each in channel.below("messages")]
        message = at.get("message").resolve(self.documents)  # AsyncAPI 2
        listed = listed or [*message.entries("oneOf")] or [message] * bool(message.at.value)
        for each in listed[:MAX_MESSAGES]:
            place = each.resolve(self.documents)
            if isinstance(place.at.value, dict):
                yield place

    def _examples(self) -> Iterator[tuple[str, dict[str, str], Any]]:
        """Yield name, headers and payload."""
        for message in (each.at for each in self._messages()):
            title = message.get("name").value
            name = title if isinstance(title, str) and title else SAMPLE
            found = list(self._declared_examples(message, name))
            if not found and message.get("payload").value is not None:
                found = [(name, {}, self._sample(message))]
            yield from found

    def _declared_examples(
        self, message: Located, name: str
    ) -> Iterator[tuple[str, dict[str, str], Any]]:
        for each in message.items("examples")[:MAX_EXAMPLES]:
            if isinstance(each, dict) and "payload" in each:
                own = each.get("name")
                headers = each.get("headers")
                texts = {
                    key: literal(as_text(value))
                    for key, value in (headers.items() if isinstance(headers, dict) else ())
                }
                yield (own if isinstance(own, str) and own else name), texts, each["payload"]

    def _sample(self, message: Located) -> Any:
        payload = self.documents.resolve(message.get("payload"))
        if payload.get("schemaFormat").value is not None:
            payload = payload.get("schema")
        return SchemaSampler(self.documents, hidden="").value(payload)


def _exchanges(path: str, found: Iterator[tuple[str, dict[str, str], Any]]) -> Iterator[Exchange]:
    names: set[str] = set()
    for name, headers, payload in found:
        text = (
            payload
            if isinstance(payload, str)
            else json.dumps(payload, indent=2, ensure_ascii=False)
        )
        if len(text) > MAX_BODY:
            continue
        made, number = name, 1
        while made in names:
            number += 1
            made = f"{name}-{number}"
        yield Exchange(
            name=made,
            source_artifact=path,
            response=Message(headers=headers, body=literal(text)),
            media_type="" if isinstance(payload, str) else _JSON,
        )
        names.add(made)
