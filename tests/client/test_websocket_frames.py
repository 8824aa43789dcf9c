"""Frames of a WebSocket by RFC 6455, against the codec of another project."""

from __future__ import annotations

import random
import struct

import pytest
from websockets.frames import Close, Frame
from websockets.frames import Opcode as PeerOpcode
from websockets.protocol import Protocol, Side

from partita_client.websocket_frames import (
    BrokenFrame,
    Opcode,
    SocketFrameReader,
    encode_frame,
    mask_bytes,
)

MAX = 2**20


def peer_frame(opcode: PeerOpcode, content: bytes, *, is_final: bool = True) -> bytes:
    return Frame(opcode, content, is_final).serialize(mask=False)


@pytest.mark.parametrize("size", [0, 1, 125, 126, 65_535, 65_536, 300_000])
def test_a_server_of_another_project_reads_what_is_written(size: int):
    content = random.Random(size).randbytes(size)
    server = Protocol(Side.SERVER, max_size=None)
    server.receive_data(encode_frame(Opcode.BINARY, content))

    [frame] = server.events_received()
    assert isinstance(frame, Frame)
    assert (frame.opcode, frame.data) == (PeerOpcode.BINARY, content)


def test_each_frame_has_a_mask_of_its_own():
    frames = {encode_frame(Opcode.TEXT, b"the same") for _ in range(20)}

    assert len(frames) == 20
    assert all(frame[1] & 0x80 for frame in frames)


@pytest.mark.parametrize("size", [0, 1, 3, 4, 5, 1001])
def test_a_mask_is_taken_off_by_itself(size: int):
    content, mask = random.Random(size).randbytes(size), b"\x01\xfe\x80\x00"

    assert mask_bytes(mask_bytes(content, mask), mask) == content


@pytest.mark.parametrize("piece", [1, 2, 3, 7, 64, 10**6])
def test_messages_are_whole_wherever_they_are_cut(piece: int):
    big = random.Random(1).randbytes(70_000)
    stream = b"".join(
        [
            peer_frame(PeerOpcode.TEXT, "späß".encode()[:3], is_final=False),
            peer_frame(PeerOpcode.PING, b"between the parts"),
            peer_frame(PeerOpcode.CONT, b"", is_final=False),
            peer_frame(PeerOpcode.CONT, "späß".encode()[3:]),
            peer_frame(PeerOpcode.BINARY, big),
            peer_frame(PeerOpcode.PONG, b""),
            peer_frame(PeerOpcode.CLOSE, Close(4401, "token_revoked").serialize()),
            peer_frame(PeerOpcode.CLOSE, b""),
        ]
    )
    reader = SocketFrameReader(MAX)

    messages = [
        message
        for at in range(0, len(stream), piece)
        for message in reader.feed(stream[at : at + piece])
    ]

    ping, text, binary, pong, close, bare = messages
    assert (ping.opcode, ping.content) == (Opcode.PING, b"between the parts")
    assert (text.opcode, text.text) == (Opcode.TEXT, "späß")
    assert (binary.opcode, binary.content) == (Opcode.BINARY, big)
    assert pong.content == b""
    assert (close.close_code, close.close_reason) == (4401, "token_revoked")
    assert (bare.close_code, bare.close_reason) == (1005, "")


def test_a_ping_counts_for_itself_within_a_message_of_the_largest_size():
    reader = SocketFrameReader(MAX)

    messages = reader.feed(
        peer_frame(PeerOpcode.BINARY, b"x" * (MAX - 1), is_final=False)
        + peer_frame(PeerOpcode.PING, b"p" * 100)
        + peer_frame(PeerOpcode.CONT, b"x")
    )

    assert [(each.opcode, len(each.content)) for each in messages] == [
        (Opcode.PING, 100), (Opcode.BINARY, MAX),
    ]  # fmt: skip


_HUGE = bytes([0x82, 127]) + struct.pack("!Q", 2**62)
BROKEN = {
    "masked": (bytes([0x82, 0x81]) + b"maskx", 1002),
    "a reserved bit": (bytes([0xC2, 0]), 1002),
    "an unknown kind": (bytes([0x83, 0]), 1002),
    "an unknown control frame": (bytes([0x8B, 0]), 1002),
    "a ping in parts": (bytes([0x09, 0]), 1002),
    "a ping that is too long": (bytes([0x89, 126, 0, 126]), 1002),
    "a continuation of nothing": (peer_frame(PeerOpcode.CONT, b"x"), 1002),
    "a message within a message": (
        peer_frame(PeerOpcode.TEXT, b"x", is_final=False) + peer_frame(PeerOpcode.TEXT, b"y"),
        1002,
    ),
    "a length in too many bytes": (bytes([0x82, 126, 0, 5]), 1002),
    "a length in far too many bytes": (bytes([0x82, 127, 0, 0, 0, 0, 0, 0, 1, 0]), 1002),
    "a frame larger than any memory": (_HUGE, 1009),
    "parts that are too much together": (
        peer_frame(PeerOpcode.BINARY, b"x" * MAX, is_final=False)
        + peer_frame(PeerOpcode.CONT, b"x"),
        1009,
    ),
    "a text that is not UTF-8": (peer_frame(PeerOpcode.TEXT, b"\xff"), 1007),
    "half a close code": (peer_frame(PeerOpcode.CLOSE, b"\x03"), 1002),
    "a close code that is never sent": (peer_frame(PeerOpcode.CLOSE, b"\x03\xed"), 1002),
    "a close reason that is not UTF-8": (peer_frame(PeerOpcode.CLOSE, b"\x03\xe8\xff"), 1007),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_breaks_the_rules_is_refused_before_it_is_kept(name: str):
    stream, code = BROKEN[name]

    with pytest.raises(BrokenFrame) as refused:
        SocketFrameReader(MAX).feed(stream)

    assert refused.value.code == code


def test_any_bytes_are_messages_or_are_refused():
    draw = random.Random(7)
    for _ in range(2000):
        reader = SocketFrameReader(1000)
        try:
            for _ in range(5):
                reader.feed(draw.randbytes(draw.randrange(40)))
        except BrokenFrame:
            continue
