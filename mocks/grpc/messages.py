"""Messages of one method as proto JSON and back; the last conversions are kept.

The conversion is Python of protobuf's own: slow, so that small messages are converted once, and
large ones on a thread, a few at a time.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any, Final, TypeVar

from google.protobuf import json_format
from google.protobuf.message import DecodeError

from kernel.errors import PlatformError
from mocks.grpc.weights import Weights
from mocks.scripts.slots import Slots
from surfaces.protos import ProtoMethod, Protos

LARGE: Final = 16 * 2**10  # bytes; larger ones are converted on a thread
LIGHT: Final = 256 * 2**10  # characters of JSON; heavier requests are converted on a thread
SMALL: Final = 8 * 2**10  # bytes; larger ones are not kept
KEPT: Final = 256
MAX_MESSAGES: Final = 10_000  # of one answer
MAX_DEPTH: Final = 64
MAX_DETAIL: Final = 300
_T = TypeVar("_T")
_large_ones: Final = Slots(2, 64)


class MessageInvalid(PlatformError):
    """What a client sent is not a message of the method."""

    code = "mock_request_invalid"


class ExampleInvalid(PlatformError):
    """The body of an answer is not a message of the method."""

    code = "mock_metadata_invalid"


class TooMuchAtOnce(PlatformError):
    code = "queue_full"


class Codec:
    def __init__(self, method: ProtoMethod, protos: Protos) -> None:
        self._request, self._response = method.request, method.response
        self._streams_responses = method.streams_responses
        self._pool = protos.pool
        self._weights = Weights(protos.pool)
        self._requests: dict[bytes, bytes] = {}
        self._answers: dict[bytes, tuple[bytes, ...]] = {}

    def check_request(self, content: bytes) -> Any:
        """Return a request as a message; raise MessageInvalid for what is none."""
        try:
            return self._request.FromString(content)
        except DecodeError:
            raise self._no_request() from None

    async def request_json(self, content: bytes) -> bytes:
        """Return a request as proto JSON, with the fields that have their defaults."""
        found = self._requests.get(content)
        if found is None:
            is_large = len(content) > LARGE or self._weigh(content) > LIGHT
            found = await _convert(self._to_json, content, is_large=is_large)
            _keep(self._requests, content, found, len(found))
        return found

    def _weigh(self, content: bytes) -> int:
        """Return the weight of a request; raise MessageInvalid or MessageTooLarge."""
        return self._weights.weight(self.check_request(content))

    def _to_json(self, content: bytes) -> bytes:
        """Return a request as JSON; raise MessageInvalid or MessageTooLarge."""
        if len(content) > LARGE:
            self._weigh(content)
        try:
            document = json_format.MessageToDict(
                self.check_request(content),
                always_print_fields_with_no_presence=True,
                descriptor_pool=self._pool,
            )
            return json.dumps(document).encode()
        except (json_format.Error, TypeError, ValueError, RecursionError):
            raise self._no_request() from None

    def _no_request(self) -> MessageInvalid:
        name = self._request.DESCRIPTOR.full_name
        return MessageInvalid(f"the request is not a message {name}")

    async def answer_messages(self, body: bytes) -> tuple[bytes, ...]:
        """Return the messages of an answer: of a list, where the method streams, one for each."""
        found = self._answers.get(body)
        if found is None:
            found = await _convert(self._to_messages, body, is_large=len(body) > LARGE)
            _keep(self._answers, body, found, sum(map(len, found)))
        return found

    def messages_at_once(self, body: bytes) -> tuple[bytes, ...]:
        """Return the same for an answer that is prepared before a call."""
        return self._to_messages(body)

    def _to_messages(self, body: bytes) -> tuple[bytes, ...]:
        if not body.strip():
            return (b"",)
        try:
            document = json.loads(body)
        except (ValueError, RecursionError):
            raise self._no_answer("it is not JSON") from None
        if not self._streams_responses or not isinstance(document, list):
            return (self._message(document),)
        if len(document) > MAX_MESSAGES:
            raise self._no_answer(f"it is a list of more than {MAX_MESSAGES} messages")
        return tuple(map(self._message, document))

    def _message(self, document: Any) -> bytes:
        if not isinstance(document, dict) and not _is_well_known(self._response):
            raise self._no_answer("it is not a JSON object")
        message = self._response()
        try:
            json_format.ParseDict(
                document, message, descriptor_pool=self._pool, max_recursion_depth=MAX_DEPTH
            )
            content: bytes = message.SerializeToString()
        except (json_format.Error, TypeError, ValueError, RecursionError) as error:
            raise self._no_answer(str(error)) from None
        return content

    def _no_answer(self, reason: str) -> ExampleInvalid:
        name = self._response.DESCRIPTOR.full_name
        return ExampleInvalid(f"the answer is not a message {name}: {reason[:MAX_DETAIL]}")


def _is_well_known(message: Any) -> bool:
    return str(message.DESCRIPTOR.full_name).startswith("google.protobuf.")


async def _convert(convert: Callable[[bytes], _T], content: bytes, *, is_large: bool) -> _T:
    if not is_large:
        return convert(content)
    if not await _large_ones.acquire():
        raise TooMuchAtOnce("too many large messages at once")
    try:
        return await asyncio.to_thread(convert, content)
    finally:
        _large_ones.release()


def _keep(kept: dict[bytes, _T], key: bytes, value: _T, size: int) -> None:
    if max(len(key), size) <= SMALL:
        if len(kept) >= KEPT:
            kept.clear()
        kept[key] = value
