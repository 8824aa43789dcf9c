"""Texts that match a regular expression, as far as it is made of the usual parts.

(literals, classes, groups, alternatives, repetitions, anchors) Whether a text matches is for RE2 to
say, in linear time.
"""

from __future__ import annotations

import string
from functools import lru_cache
from typing import Final

import re2

MAX_PATTERN: Final = 1_000  # characters
_MAX_LENGTH: Final = 1_000  # of a text
_CLASSES: Final = {"d": "0", "w": "a", "s": " ", "D": "a", "W": "-", "S": "a"}
_MEMBERS: Final = {"d": string.digits, "w": string.ascii_letters + string.digits + "_", "s": " "}
_CONTROL: Final = {"n": "\n", "r": "\r", "t": "\t", "f": "\f", "v": "\v", "0": "\0"}
_PREFERRED: Final = (
    string.ascii_lowercase + string.digits + string.ascii_uppercase + "-_./:@ +#,;=!?%&*"
)
_QUIET: Final = re2.Options()
_QUIET.log_errors = False


class _Unsupported(Exception):
    """A part of an expression that no text is made for."""


@lru_cache(2_048)
def matcher(pattern: str) -> re2._Regexp | None:
    """Return the compiled pattern, None for one that RE2 does not take."""
    if len(pattern) > MAX_PATTERN:
        return None
    try:
        return re2.compile(pattern, _QUIET)
    except re2.error:
        return None


@lru_cache(2_048)
def matching(pattern: str, minimum: int = 0, maximum: int | None = None) -> str | None:
    """Return a text that matches, with that many characters if possible; None if none was found."""
    expression = matcher(pattern)
    if expression is None:
        return None
    for repeats in (0, 1, 2, 4, 8, 16, minimum, max(minimum - 1, 0), max(minimum - 4, 0)):
        try:
            text = _Maker(pattern, min(repeats, _MAX_LENGTH)).text()
        except (_Unsupported, IndexError):
            return None
        fits = minimum <= len(text) <= (_MAX_LENGTH if maximum is None else maximum)
        if fits and expression.search(text):
            return text
    return None


class _Maker:
    """Reads a pattern and writes one text; `repeats` is how often what may repeat does."""

    def __init__(self, pattern: str, repeats: int) -> None:
        self.pattern = pattern
        self.repeats = repeats
        self.at = 0
        self.depth = 0

    def text(self) -> str:
        made = self._alternatives()
        if self.at < len(self.pattern):
            raise _Unsupported
        return made

    def _peek(self) -> str:
        return self.pattern[self.at : self.at + 1]

    def _take(self) -> str:
        letter = self.pattern[self.at]
        self.at += 1
        return letter

    def _alternatives(self) -> str:
        self.depth += 1
        if self.depth > 20:  # noqa: PLR2004 - groups within groups
            raise _Unsupported
        made = [self._sequence()]
        while self._peek() == "|":
            self.at += 1
            made.append(self._sequence())
        self.depth -= 1
        return next((each for each in made if each), "")

    def _sequence(self) -> str:
        made = ""
        while self._peek() not in ("", "|", ")"):
            made += self._repeat(self._atom())
            if len(made) > _MAX_LENGTH:
                raise _Unsupported
        return made

    def _atom(self) -> str:
        letter = self._take()
        if letter == "(":
            return self._group()
        if letter == "[":
            return self._class()
        if letter == "\\":
            return self._escape()
        if letter in "^$":
            return ""
        return "a" if letter == "." else letter

    def _group(self) -> str:
        if self.pattern.startswith("?:", self.at):
            self.at += 2
        elif self.pattern.startswith(("?P<", "?<"), self.at):
            self.at = self.pattern.index(">", self.at) + 1 if ">" in self.pattern else -1
        elif self._peek() == "?":
            raise _Unsupported
        made = self._alternatives()
        if self._take() != ")":
            raise _Unsupported
        return made

    def _escape(self) -> str:
        letter = self._take()
        if letter in "bBAzZ":
            return ""
        if letter in "xu":
            digits = self.pattern[self.at : self.at + (2 if letter == "x" else 4)]
            self.at += len(digits)
            try:
                return chr(int(digits, 16))
            except ValueError:
                raise _Unsupported from None
        if letter in "pPkQE" or (letter.isdigit() and letter != "0"):
            raise _Unsupported
        return _CLASSES.get(letter) or _CONTROL.get(letter) or letter

    def _class(self) -> str:
        negated = self._peek() == "^"
        self.at += negated
        members = ""
        while self._peek() != "]" or not members:
            letter = self._take()
            if letter == "[" and self._peek() == ":":
                raise _Unsupported
            following = self._member(letter)
            if len(following) == 1 and self._peek() == "-" and self._after() not in ("]", ""):
                self.at += 1
                last = self._member(self._take())
                members += "".join(map(chr, range(ord(following), min(ord(last[:1]), 0x2FF) + 1)))
            members += following
        self.at += 1
        if negated:
            return next(letter for letter in f"{_PREFERRED}~^" if letter not in members)
        return next((letter for letter in _PREFERRED if letter in members), members[0])

    def _member(self, letter: str) -> str:
        if letter != "\\":
            return letter
        if self._peek() in _MEMBERS:
            return _MEMBERS[self._take()]
        return self._escape()

    def _after(self) -> str:
        return self.pattern[self.at + 1 : self.at + 2]

    def _repeat(self, atom: str) -> str:
        mark = self._peek()
        least, most = 1, 1
        if mark in ("*", "+", "?") and mark:
            self.at += 1
            least, most = {"*": (0, _MAX_LENGTH), "+": (1, _MAX_LENGTH), "?": (0, 1)}[mark]
        elif mark == "{" and "}" in self.pattern[self.at :]:
            end = self.pattern.index("}", self.at)
            low, comma, high = self.pattern[self.at + 1 : end].partition(",")
            if low.isdecimal() and (not high or high.isdecimal()):
                self.at = end + 1
                least = int(low)
                most = int(high) if high else (_MAX_LENGTH if comma else least)
        if least > _MAX_LENGTH:
            raise _Unsupported
        if self._peek() in ("?", "+") and mark in ("*", "+", "?", "{"):
            self.at += 1
        return atom * max(least, min(most, self.repeats))
