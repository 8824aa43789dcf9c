"""The terminal of a person who uses `run shell`: the modes of its program, and typed escapes.

The modes are taken back at the end and left out of a pipe. `~.` leaves, as in ssh.
"""

from __future__ import annotations

import re
from typing import Final

_MODE: Final = re.compile(rb"\x1b\[\?([0-9;]+)([hl])")
_OPEN: Final = re.compile(rb"(?:\r|\x1b(?:\[(?:\?[0-9;]{0,32})?)?)\Z")
_ON_BY_DEFAULT: Final = frozenset({b"7", b"25"})  # wrap, cursor
_ALWAYS: Final = b"\x1b[m\x1b(B\x1b[4l\x1b>"  # colors, character set, insert mode, keypad
_TAIL_BYTES: Final = 32
_ESCAPE: Final = ord("~")
_LEAVE: Final = ord(".")
_LINE_ENDS: Final = b"\r\n"


class TerminalModes:
    """Remembers from filtered output which modes differ from those of a fresh terminal."""

    def __init__(self) -> None:
        self._changed: set[bytes] = set()
        self._tail = b""

    def feed(self, output: bytes) -> None:
        text = self._tail + output
        for match in _MODE.finditer(text):
            for mode in match[1].split(b";"):
                is_default = (match[2] == b"h") == (mode in _ON_BY_DEFAULT)
                (self._changed.discard if is_default else self._changed.add)(mode)
        self._tail = text[-_TAIL_BYTES:]

    def reset(self) -> bytes:
        """Return what makes the terminal as it was."""
        modes = (
            b"\x1b[?" + mode + (b"h" if mode in _ON_BY_DEFAULT else b"l")
            for mode in sorted(self._changed)
        )
        return b"".join(modes) + _ALWAYS


class PlainOutput:
    """Output for a pipe or a file: without the modes of a terminal, lines end with a newline."""

    def __init__(self) -> None:
        self._held = b""

    def feed(self, output: bytes) -> bytes:
        """Return what can be written; a sequence whose end has not come yet is held."""
        text = self._held + output
        open_at = _OPEN.search(text)
        end = open_at.start() if open_at else len(text)
        self._held = text[end:]
        return _plain(text[:end])

    def finish(self) -> bytes:
        """Return what was held and is no such sequence after all."""
        held, self._held = self._held, b""
        return held


def _plain(text: bytes) -> bytes:
    return _MODE.sub(b"", text).replace(b"\r\n", b"\n")


class TypedEscapes:
    """Finds `~.` at the beginning of a line; `~~` there is one `~`, anything else is as typed."""

    def __init__(self) -> None:
        self._at_line_start = True
        self._escaped = False

    def feed(self, typed: bytes) -> tuple[bytes, bool]:
        """Return what to pass on, and whether the person leaves: the rest is dropped then."""
        passed = bytearray()
        for byte in typed:
            if self._escaped:
                self._escaped = False
                if byte == _LEAVE:
                    return bytes(passed), True
                if byte != _ESCAPE:
                    passed.append(_ESCAPE)
            elif byte == _ESCAPE and self._at_line_start:
                self._escaped = True
                continue
            passed.append(byte)
            self._at_line_start = byte in _LINE_ENDS
        return bytes(passed), False
