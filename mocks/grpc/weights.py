"""How long the proto JSON of a message is at least: fields with their defaults are written, too.

A message of a few bytes may hold thousands of empty ones, each with all its fields in JSON.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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
    """Of the messages that a message type may hold; `pool` knows those that stand in an `Any`."""

    def __init__(self, descriptor: Any, pool: Any) -> None:
        self._pool = pool
        self._of_types: dict[str, int] = {}
        types = _reachable(descriptor)
        self._heaviest = max(map(self._of_type, types.values()))
        self._has_any = _ANY in types

    def is_light(self, size: int, limit: int) -> bool:
        """Return whether no message of so many bytes is heavier than `limit`."""
        return not self._has_any and (size // 2 + 1) * self._heaviest <= limit

    def weight(self, message: Any) -> int:
        """Return the weight of a message; raise MessageTooLarge beyond the limit."""
        total = 0
        waiting = [message]
        while waiting:
            each = waiting.pop()
            total += self._of_type(each.DESCRIPTOR)
            if total > MAX_WEIGHT:
                raise MessageTooLarge(
                    f"the JSON of the request has more than {MAX_WEIGHT // 2**20} MiB"
                )
            waiting.extend(_messages_in(each))
            if each.DESCRIPTOR.full_name == _ANY:
                waiting.extend(self._unpack(each))
        return total

    def _of_type(self, descriptor: Any) -> int:
        name = descriptor.full_name
        found = self._of_types.get(name)
        if found is None:
            shown = () if name.startswith(_WELL_KNOWN) else descriptor.fields
            found = self._of_types[name] = _MARKS + sum(
                len(field.json_name) + _MARKS for field in shown if not field.has_presence
            )
        return found

    def _unpack(self, packed: Any) -> Iterator[Any]:
        """Yield what an `Any` holds; what does not is told by the conversion."""
        try:
            kind = self._pool.FindMessageTypeByName(packed.type_url.rpartition("/")[2])
            yield message_factory.GetMessageClass(kind).FromString(packed.value)
        except (KeyError, DecodeError):
            return


def _messages_in(message: Any) -> Iterator[Any]:
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        if hasattr(value, "ListFields"):
            yield value
        elif not isinstance(value, Mapping):
            yield from value
        elif field.message_type.fields_by_name["value"].message_type is not None:
            yield from value.values()


def _reachable(descriptor: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    waiting = [descriptor]
    while waiting:
        each = waiting.pop()
        if each.full_name not in found:
            found[each.full_name] = each
            waiting.extend(field.message_type for field in each.fields if field.message_type)
    return found
