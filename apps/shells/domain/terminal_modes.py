"""The modes that a program has set in a terminal, and how to take them back."""

from __future__ import annotations

import re
from typing import Final

_MODE: Final = re.compile(rb"\x1b\[\?([0-9;]+)([hl])")
_ON_BY_DEFAULT: Final = frozenset({b"7", b"25"})  # wrap, cursor
_ALWAYS: Final = b"\x1b[m\x1b(B\x1b[4l\x1b>"  # colors, character set, insert mode, keypad
_TAIL_BYTES: Final = 32


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
