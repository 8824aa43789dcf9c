"""How long the proto JSON of a message is at least: fields with their defaults are written, too.

A message of a few bytes may hold thousands of empty ones, each with all its fields in JSON.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from google.protobuf import message_factory
from google.protobuf.message import DecodeError

from kernel.errors import PlatformError

MAX_WEIGHT: Final = 16 * 2**20  # characters
_MARKS: Final = 6  # quotes, colon, comma and the shortest value
_ANY: Final = "google.protobuf.Any"
_WELL_KNOWN: Final = "google.protobuf."


class MessageTooLarge(PlatformError):
    """A message whose JSON would be many times as large."""

    code = "payload_too_large"


class Weights:
    """Of the messages of a pool, which knows those that stand in an `Any`."""

    def __init__(self, pool: Any) -> None:
        self._pool = pool
        self._of_types: dict[str, tuple[int, bool]] = {}

    def weight(self, message: Any) -> int:
        """Return the weight of a message; raise MessageTooLarge beyond the limit."""
        total = 0
        waiting = [message]
        while waiting:
            each = waiting.pop()
            weight, has_messages = self._of_type(each.DESCRIPTOR)
            total += weight
            if total > MAX_WEIGHT:
                raise MessageTooLarge(
                    f"the JSON of the request has more than {MAX_WEIGHT // 2**20} MiB"
                )
            if has_messages:
                waiting.extend(self._messages_in(each))
        return total

    def _of_type(self, descriptor: Any) -> tuple[int, bool]:
        """Return the weight of an empty message, and whether one may hold others."""
        name = descriptor.full_name
        found = self._of_types.get(name)
        if found is None:
            shown = () if name.startswith(_WELL_KNOWN) else descriptor.fields
            weight = _MARKS + sum(
                len(field.json_name) + _MARKS for field in shown if not field.has_presence
            )
            has_messages = name == _ANY or any(each.message_type for each in descriptor.fields)
            found = self._of_types[name] = weight, has_messages
        return found

    def _messages_in(self, message: Any) -> Iterator[Any]:
        for field, value in message.ListFields():
            kind = field.message_type
            if kind is None:
                continue
            if not field.is_repeated:
                yield value
            elif not kind.GetOptions().map_entry:
                yield from value
            elif kind.fields_by_name["value"].message_type is not None:
                yield from value.values()
        if message.DESCRIPTOR.full_name == _ANY:
            try:
                kind = self._pool.FindMessageTypeByName(message.type_url.rpartition("/")[2])
                yield message_factory.GetMessageClass(kind).FromString(message.value)
            except (KeyError, DecodeError):  # the conversion tells it
                return
