"""Forms: how the values of files that people write are read, and what JSON Schema says of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, Final, Literal, TypeAlias

import re2

from kernel.durations import parse_period_s
from readers import Unreadable
from readers.diagnostics import nearest_advice
from readers.tree import Kind, Tree
from surfaces.trees import Warnings, is_blank, is_small, items, text_of

UNKNOWN_KEY: Final = "unknown_key"
UNKNOWN_VALUE: Final = "unknown_value"  # a default stands in for it, and the operation answers
MAX_UNKNOWN: Final = 20  # keys of one file
_MAX_PATTERN: Final = 2_000
_NEAR: Final = 0.75  # of a key where any other may stand
_QUIET: Final = re2.Options()
_QUIET.log_errors = False
Schema: TypeAlias = dict[str, object]


def unreadable_at(at: Tree, reason: str) -> Unreadable:
    return Unreadable(reason, line=at.line or None, column=at.column or None)


class WrongKind(Unreadable):
    """A value of a kind that its key does not take; a lenient record goes on without it."""


def wrong_kind(at: Tree, reason: str) -> WrongKind:
    return WrongKind(reason, line=at.line or None, column=at.column or None)


@dataclass(slots=True)
class FileNotes:
    """What a file gets wrong and is answered nevertheless; `where` begins each sentence."""

    path: str = ""
    warnings: Warnings = field(default_factory=Warnings)
    where: str = ""
    problems: list[Unreadable] = field(default_factory=list)  # of a record that collects them
    unknown: int = 0

    @property
    def is_full(self) -> bool:
        """Return whether no more unknown keys of the file are told."""
        return self.unknown >= MAX_UNKNOWN

    def add_unknown(self, reason: str, at: Tree) -> None:
        if not self.is_full:
            self.unknown += 1
            self.warnings.add(UNKNOWN_KEY, f"{self.where}{reason}", self.path, at)

    def add_value(self, error: Unreadable) -> None:
        told = Unreadable(f"{self.where}{error.reason}", line=error.line, column=error.column)
        self.warnings.add_unreadable(UNKNOWN_VALUE, self.path, told)


@dataclass(frozen=True, slots=True)
class Form:
    """How the value of a key is read and what JSON Schema says of it.

    `read` gets the tree, the key for its sentences, and the notes. `takes` is `blank` where a blank
    text is a value, and `null` where null is one, too.
    """

    read: Callable[[Tree, str, FileNotes], Any]
    schema: Schema = field(default_factory=dict, hash=False)
    takes: Literal["", "blank", "null"] = ""

    def is_missing(self, tree: Tree) -> bool:
        if tree.kind is Kind.NULL:
            return self.takes != "null"
        return not self.takes and is_blank(tree)

    def with_check(self, check: Callable[[Tree], object]) -> Form:
        """Return this form with a check of what was read, which raises Unreadable."""

        def read(tree: Tree, key: str, notes: FileNotes) -> Any:
            made = self.read(tree, key, notes)
            check(tree)
            return made

        return Form(read, self.schema, self.takes)


def is_near(name: str, known: Iterable[str]) -> bool:
    """Return whether a name is most likely a misspelling of a known one."""
    folded = [key.lower() for key in known]
    return bool(get_close_matches(name.lower()[:40], folded, 1, _NEAR))


def misspelling(noun: str, text: str, known: Iterable[str]) -> str:
    """Return why a word is most likely misspelled where any may stand, "" for one that is not."""
    folded = {each.casefold(): each for each in known}
    if text.casefold() in folded or not is_near(text, folded):
        return ""
    return f'the {noun} "{text[:40]}" is not known; {nearest_advice(text, folded.values())}'


def list_of(form: Form, highest: int = 1_000, *, of_mappings: bool = True) -> Form:
    """Return the form of a list; one value alone is one of length 1."""

    def read(tree: Tree, key: str, notes: FileNotes) -> tuple[Any, ...]:
        if tree.kind is Kind.MAP and not of_mappings:
            raise wrong_kind(tree, f"{key} must be a list")
        if len(items(tree)) > highest:
            raise unreadable_at(tree, f"more than {highest} {key}")
        there = (each for each in items(tree) if not form.is_missing(each))
        return tuple(form.read(each, key, notes) for each in there)

    return Form(read, {"type": "array", "items": form.schema})


def word(noun: str, *words: str, otherwise: str | None = None, advice: str = "") -> Form:
    """Return the form of one of several words, in any case.

    With `otherwise`, another word is told and counts as missing.
    """

    def read(tree: Tree, _key: str, _notes: FileNotes) -> str:
        given = text_of(tree)
        for each in words:
            if each.lower() == given.strip().lower():
                return each
        nearest = nearest_advice(given.strip(), words)
        if otherwise is not None:
            shown = "…" if tree.kind in (Kind.MAP, Kind.LIST) else given[:40]
            raise wrong_kind(tree, f'the {noun} "{shown}" is not known{otherwise}; {nearest}')
        near = f"; {nearest}" if nearest.startswith("did") else ""
        known = ", ".join(words)
        reason = f'"{given[:40]}" is not {noun}; use one of {known}{advice}{near}'
        raise unreadable_at(tree, reason)

    return Form(read, {"enum": list(words)})


def whole(lowest: int, highest: int) -> Form:
    """Return the form of an integer between bounds, spelled in digits."""

    def read(tree: Tree, key: str, _notes: FileNotes) -> int:
        text = text_of(tree)
        is_number = text.isascii() and text.isdecimal() and len(text) <= len(str(highest))
        if not is_number or not lowest <= int(text) <= highest:
            raise unreadable_at(tree, f"{key} must be an integer from {lowest} to {highest}")
        return int(text)

    return Form(read, {"type": "integer", "minimum": lowest, "maximum": highest})


def duration(lowest: int, highest: int) -> Form:
    """Return the form of a duration, in milliseconds, with its unit."""

    def read(tree: Tree, key: str, _notes: FileNotes) -> int:
        text = text_of(tree).strip()
        if text.isascii() and text.isdecimal() and text.strip("0"):
            advice = f"{text[:9]}ms or {text[:9]}s"
            raise unreadable_at(tree, f"{key} needs a unit, as in {advice}")
        try:
            found = round(parse_period_s(text) * 1000)
        except ValueError as error:
            raise unreadable_at(tree, f"{key}: {error}") from None
        if not lowest <= found <= highest:
            raise unreadable_at(tree, f"{key} must be from {lowest} ms to {highest} ms")
        return found

    return Form(read, {"type": ["string", "integer"], "pattern": r"^([0-9]+(ms|s|m|h|d))+$|^0+$"})


def read_text(tree: Tree, key: str, _notes: FileNotes) -> str:
    """Return the text of a string, number or boolean."""
    if tree.kind in (Kind.MAP, Kind.LIST):
        raise wrong_kind(tree, f"{key} must be a text")
    return text_of(tree)


def _flag(tree: Tree, key: str, _notes: FileNotes) -> bool:
    if tree.kind is not Kind.BOOL:
        raise wrong_kind(tree, f"{key} must be true or false")
    return tree.text == "true"


def _number(tree: Tree, key: str, _notes: FileNotes) -> float:
    if tree.kind is not Kind.NUMBER:
        raise unreadable_at(tree, f"{key} must be a number")
    number: float = tree.plain()
    return number


def _integer(tree: Tree, key: str, notes: FileNotes) -> int:
    found = _number(tree, key, notes)
    if not isinstance(found, int):
        raise unreadable_at(tree, f"{key} must be an integer")
    return found


def _pattern(tree: Tree, _key: str, _notes: FileNotes) -> str:
    text = text_of(tree)
    if text and (len(text) > _MAX_PATTERN or not is_pattern(text)):
        raise unreadable_at(tree, f'"{text[:80]}" is not a regular expression (RE2)')
    return text or _refuse(tree, "a pattern is a text")


def _refuse(tree: Tree, reason: str) -> str:
    raise unreadable_at(tree, reason)


def is_pattern(text: str) -> bool:
    """Return whether a text is a regular expression of RE2."""
    try:
        re2.compile(text, options=_QUIET)
    except re2.error:
        return False
    return True


def _texts(tree: Tree, _key: str, _notes: FileNotes) -> dict[str, str]:
    if tree.kind is not Kind.MAP:
        raise unreadable_at(tree, "expected a mapping of texts")
    for each in tree.pairs.values():
        if each.kind in (Kind.MAP, Kind.LIST):
            raise unreadable_at(each, "expected a text")
    return {name: each.text for name, each in tree.pairs.items()}


def _anything(tree: Tree, _key: str, _notes: FileNotes) -> Tree:
    return tree


_SCALAR: Final[Schema] = {"type": ["string", "number", "boolean"]}
TEXT: Final = Form(read_text, _SCALAR)
RAW_TEXT: Final = Form(read_text, _SCALAR, "blank")
STRIPPED: Final = Form(lambda tree, key, notes: read_text(tree, key, notes).strip(), _SCALAR)
FLAG: Final = Form(_flag, {"type": "boolean"})
NUMBER: Final = Form(_number, {"type": "number"})
INTEGER: Final = Form(_integer, {"type": "integer"})
PATTERN: Final = Form(_pattern, {"type": "string", "format": "regex"})
TEXTS: Final = Form(_texts, {"type": "object", "additionalProperties": _SCALAR})
ANYTHING: Final = Form(_anything, {}, "blank")


def refuse_larger(tree: Tree, name: str, values: int = 20_000, characters: int = 2_000_000) -> None:
    """Raise Unreadable for a value that is too large with its aliases written out."""
    if not is_small(tree, values, characters):
        raise unreadable_at(tree, f"the {name} is too large")
