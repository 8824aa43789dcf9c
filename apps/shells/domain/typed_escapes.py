"""What a person types at the command line, with its escapes: `~.` leaves, as in ssh."""

from __future__ import annotations

from typing import Final

_ESCAPE: Final = ord("~")
_LEAVE: Final = ord(".")
_LINE_ENDS: Final = b"\r\n"


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
