"""A filter for terminal output of a step: text, colors and cursor moves pass, nothing else does.

What a program inside a step writes reaches the terminal of a person. Titles, clipboard, links,
queries whose answers the terminal would type into the shell, and other modes are dropped, whatever
form they have (7-bit, C1 controls, cut at any byte). (reference: control-plane 11.7)
"""

from __future__ import annotations

import codecs
import re
from typing import Final

LONGEST_SEQUENCE: Final = 128  # characters; longer ones are dropped
_MOST_DIGITS: Final = 5
_TOKEN: Final = re.compile(
    r"(?P<text>[^\x00-\x1f\x7f-\x9f]+)"
    r"|(?P<string>\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])"
    r"|(?:\x1b\[|\x9b)(?P<parameters>[0-?]{0,100})(?P<between>[ -/]{0,4})(?P<final>[@-~])"
    r"|(?P<open>(?:\x1b\[|\x9b)[0-?]{0,100}[ -/]{0,4})"
    r"|\x1b(?P<escape>[ -/]{0,4}[0-~])"
    r"|(?P<half>\x1b[ -/]{0,4})"
    r"|(?P<control>[\x00-\x1f\x7f-\x9f])"
)
_STRING_END: Final = {  # by whether it is an OSC: those end at BEL and at a line's end as well
    True: re.compile("\x1b\\\\|[\x07\n\r\x18\x1a\x9c]|\x1b(?=[^\\\\])"),
    False: re.compile("\x1b\\\\|[\x18\x1a\x9c]|\x1b(?=[^\\\\])"),
}
_OSC: Final = ("\x1b]", "\x9d")
_CONTROLS: Final = frozenset("\x07\b\t\n\x0b\x0c\r")
_ESCAPES: Final = frozenset(("7", "8", "=", ">", "D", "E", "H", "M", "(0", "(B"))
_FULL_RESET: Final = "c"
_CLEARED: Final = "\x1b[m\x1b[H\x1b[2J"  # what a full reset becomes: it keeps the scrollback
_PLAIN: Final = re.compile(r"[0-9;]*\Z")
_COLORS: Final = re.compile(r"[0-9;:]*\Z")
_ERASE: Final = re.compile(r"\??[0-2]?\Z")
_ONE_NUMBER: Final = re.compile(r"[0-9]*\Z")
_NOTHING: Final = re.compile(r"\Z")
_PARAMETERS: Final = {  # final character → the parameters with which the sequence passes
    "m": _COLORS,
    **dict.fromkeys("ABCDEFGHIZLMPSX@`adefgr", _PLAIN),
    **dict.fromkeys("JK", _ERASE),
    **dict.fromkeys("Tb", _ONE_NUMBER),
    **dict.fromkeys("su", _NOTHING),
}
_MODES: Final = {  # of `h` and `l`: insert; cursor keys, origin, wrap, cursor, other screen, paste
    "": frozenset({"4"}),
    "?": frozenset({"1", "6", "7", "12", "25", "47", "1047", "1048", "1049", "2004"}),
}


class TerminalFilter:
    """Filters a stream of bytes; keeps at most one unfinished character and sequence."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._rest = ""  # an unfinished sequence
        self._string: bool | None = None  # inside a string to drop; whether it is an OSC

    def feed(self, data: bytes) -> bytes:
        """Return what of the data, and of what was held back before it, may be shown."""
        text, self._rest = self._rest + self._decoder.decode(data), ""
        kept: list[str] = []
        place = 0
        while place < len(text):
            if self._string is not None:
                place = self._skip_string(text, place)
                continue
            token = _TOKEN.match(text, place)
            if token is None:
                raise AssertionError("every character belongs to a token")
            place = token.end()
            if place == len(text) and self._hold(token):
                break
            kept.append(self._filter_token(token))
        return "".join(kept).encode()

    def end(self) -> bytes:
        """Return what can be shown of the end; an unfinished sequence is dropped."""
        rest = self._decoder.decode(b"", final=True)
        self._rest, self._string = "", None
        return "".join(char for char in rest if char == "\ufffd").encode()

    def _skip_string(self, text: str, place: int) -> int:
        """Return where the string ends, or the end of the text; what is skipped is not kept."""
        end = _STRING_END[bool(self._string)].search(text, place)
        if end is None:
            self._rest = "\x1b" if text.endswith("\x1b") else ""
            return len(text)
        self._string = None
        is_next_sequence = end[0] == "\x1b"
        return end.start() if is_next_sequence or end[0] in "\n\r" else end.end()

    def _hold(self, token: re.Match[str]) -> bool:
        """Keep a sequence that may go on in the next bytes; return whether it is one."""
        unfinished = token["open"] or token["half"]
        if unfinished and len(unfinished) < LONGEST_SEQUENCE:
            self._rest = unfinished
            return True
        return False

    def _filter_token(self, token: re.Match[str]) -> str:
        if text := token["text"]:
            return text
        if token["string"]:
            self._string = token["string"] in _OSC
            return ""
        if token["final"]:
            return _control_sequence(token["parameters"], token["between"], token["final"])
        if escape := token["escape"]:
            return _CLEARED if escape == _FULL_RESET else f"\x1b{escape}" * (escape in _ESCAPES)
        control = token["control"]
        return control if control in _CONTROLS else ""


def _control_sequence(parameters: str, between: str, final: str) -> str:
    """Return the sequence in its 7-bit form, without the modes that do not pass; empty: none."""
    if between or any(len(number) > _MOST_DIGITS for number in re.split("[;:?]", parameters)):
        return ""
    if final in "hl":
        prefix = parameters[:1] if parameters[:1] == "?" else ""
        wanted = parameters[len(prefix) :].split(";")
        modes = [mode for mode in wanted if mode in _MODES[prefix]]
        return f"\x1b[{prefix}{';'.join(modes)}{final}" if modes else ""
    allowed = _PARAMETERS.get(final)
    return f"\x1b[{parameters}{final}" if allowed and allowed.match(parameters) else ""
