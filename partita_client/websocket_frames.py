"""Frames of a WebSocket (RFC 6455), the side of a client: bytes in, messages out, without a socket.

A server must not mask, a client must. Sizes are bounded before anything is kept.
"""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

NORMAL: Final = 1000
PROTOCOL_ERROR: Final = 1002
WITHOUT_CODE: Final = 1005  # a close frame that names none; never sent
NOT_TEXT: Final = 1007
TOO_BIG: Final = 1009
_FINAL: Final = 0x80
_MASKED: Final = 0x80
_RESERVED: Final = 0x70
_SHORT_MAX: Final = 125  # of the length in the second byte, and of a control frame
_TWO_BYTES: Final = 126
_EIGHT_BYTES: Final = 127
_MASK_BYTES: Final = 4
_SENT_CODES: Final = frozenset({1000, 1001, 1002, 1003, *range(1007, 1015), *range(3000, 5000)})


class Opcode(IntEnum):
    CONTINUATION = 0
    TEXT = 1
    BINARY = 2
    CLOSE = 8
    PING = 9
    PONG = 10


_OPCODES: Final = frozenset(map(int, Opcode))


@dataclass(frozen=True, slots=True, kw_only=True)
class SocketMessage:
    """A whole message, or a control frame."""

    opcode: Opcode
    content: bytes

    @property
    def text(self) -> str:
        return self.content.decode()

    @property
    def close_code(self) -> int:
        return struct.unpack("!H", self.content[:2])[0] if self.content else WITHOUT_CODE

    @property
    def close_reason(self) -> str:
        return self.content[2:].decode()


class BrokenFrame(Exception):
    """What came is against the protocol; `code` is the close code to answer with."""

    def __init__(self, code: int, words: str) -> None:
        super().__init__(words)
        self.code = code


def encode_frame(opcode: Opcode, content: bytes = b"") -> bytes:
    """Return a message of a client as one frame, masked anew."""
    size = len(content)
    head = bytes([_FINAL | opcode])
    if size <= _SHORT_MAX:
        head += bytes([_MASKED | size])
    elif size < 2**16:
        head += struct.pack("!BH", _MASKED | _TWO_BYTES, size)
    else:
        head += struct.pack("!BQ", _MASKED | _EIGHT_BYTES, size)
    mask = os.urandom(_MASK_BYTES)
    return head + mask + mask_bytes(content, mask)


def mask_bytes(content: bytes, mask: bytes) -> bytes:
    """Return the content under a mask of four bytes; the same again takes it off."""
    size = len(content)
    repeated = (mask * (size // _MASK_BYTES + 1))[:size]
    return (int.from_bytes(content) ^ int.from_bytes(repeated)).to_bytes(size)


class SocketFrameReader:
    """Makes messages of what a server sends, cut at any byte."""

    def __init__(self, message_max: int) -> None:
        self._message_max = message_max
        self._rest = bytearray()
        self._opcode: Opcode | None = None  # of a message whose end has not come
        self._content = bytearray()

    def feed(self, received: bytes) -> list[SocketMessage]:
        """Return the messages that are whole now; raise BrokenFrame."""
        self._rest += received
        messages = []
        while (frame := self._take_frame()) is not None:
            message = self._take_message(*frame)
            if message is not None:
                messages.append(message)
        return messages

    def _take_frame(self) -> tuple[int, bytes] | None:
        """Return the first byte and the content of the next frame, None while it is not whole."""
        rest = self._rest
        if len(rest) < 2:  # noqa: PLR2004 - the two bytes that each frame has
            return None
        self._check_head(rest[0], rest[1])
        start = {_TWO_BYTES: 4, _EIGHT_BYTES: 10}.get(rest[1], 2)
        if len(rest) < start:
            return None
        size = rest[1] if start == 2 else int.from_bytes(rest[2:start])  # noqa: PLR2004
        if start > 2 and size < (_TWO_BYTES if start == 4 else 2**16):  # noqa: PLR2004
            raise BrokenFrame(PROTOCOL_ERROR, "a length that is longer than it has to be")
        before = 0 if rest[0] & 0x0F >= Opcode.CLOSE else len(self._content)
        if size + before > self._message_max:
            raise BrokenFrame(TOO_BIG, f"a message of more than {self._message_max} bytes")
        if len(rest) < start + size:
            return None
        first, content = rest[0], bytes(rest[start : start + size])
        del rest[: start + size]
        return first, content

    def _check_head(self, first: int, second: int) -> None:
        opcode = first & 0x0F
        if first & _RESERVED:
            raise BrokenFrame(
                PROTOCOL_ERROR, "a reserved bit is set, and no extension was agreed on"
            )
        if opcode not in _OPCODES:
            raise BrokenFrame(PROTOCOL_ERROR, f"a frame of the unknown kind {opcode}")
        if second & _MASKED:
            raise BrokenFrame(PROTOCOL_ERROR, "a frame of a server that is masked")
        if opcode >= Opcode.CLOSE and (second > _SHORT_MAX or not first & _FINAL):
            raise BrokenFrame(PROTOCOL_ERROR, "a control frame that is too long or in parts")

    def _take_message(self, first: int, content: bytes) -> SocketMessage | None:
        """Return a control frame, or the message that this frame ends; None for any other."""
        opcode = Opcode(first & 0x0F)
        if opcode >= Opcode.CLOSE:
            return _control_message(opcode, content)
        if (opcode == Opcode.CONTINUATION) != (self._opcode is not None):
            raise BrokenFrame(PROTOCOL_ERROR, "parts of a message in the wrong order")
        self._opcode = self._opcode or opcode
        self._content += content
        if not first & _FINAL:
            return None
        message = SocketMessage(opcode=self._opcode, content=bytes(self._content))
        self._opcode = None
        self._content.clear()
        if message.opcode == Opcode.TEXT:
            _require_text(message.content)
        return message


def _control_message(opcode: Opcode, content: bytes) -> SocketMessage:
    message = SocketMessage(opcode=opcode, content=content)
    if opcode == Opcode.CLOSE and content:
        if len(content) == 1 or message.close_code not in _SENT_CODES:
            raise BrokenFrame(PROTOCOL_ERROR, "a close frame without a code that may be sent")
        _require_text(content[2:])
    return message


def _require_text(content: bytes) -> None:
    try:
        content.decode()
    except UnicodeDecodeError:
        raise BrokenFrame(NOT_TEXT, "a text that is not UTF-8") from None
