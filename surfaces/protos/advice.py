"""What was most likely meant where protoc says that something is wrong."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from readers.diagnostics import nearest_name
from surfaces.protos.descriptors import ProtoProblem

_KEYWORDS: Final = tuple(
    """syntax import package option message enum service rpc returns stream oneof map optional
    required repeated reserved extensions extend public weak proto2 proto3 edition""".split()  # noqa: SIM905
)
_SCALARS: Final = tuple(
    """double float int32 int64 uint32 uint64 sint32 sint64 fixed32 fixed64 sfixed32 sfixed64 bool
    string bytes""".split()  # noqa: SIM905
)
_OPTIONS: Final = tuple(
    """deprecated json_name packed default java_package java_outer_classname java_multiple_files
    go_package csharp_namespace objc_class_prefix optimize_for allow_alias idempotency_level lazy
    map_entry cc_enable_arenas php_namespace ruby_package jstype ctype""".split()  # noqa: SIM905
)
_IMPORTS: Final = tuple(
    f"google/protobuf/{each}.proto"
    for each in [
        "any",
        "api",
        "descriptor",
        "duration",
        "empty",
        "field_mask",
        "struct",
        "timestamp",
        "wrappers",
    ]
)
_TYPES: Final = {each.removesuffix(".proto").rpartition("/")[2] for each in _IMPORTS}
_WELL_KNOWN: Final = (
    *(f"google.protobuf.{each.title().replace('_', '')}" for each in _TYPES),
    *(f"google.protobuf.{each}Value" for each in ("String", "Bool", "Int32", "Int64", "Bytes")),
)
_DECLARED: Final = re.compile(r"\b(?:message|enum)\s+(\w+)")
_QUOTED: Final = re.compile(r'^(?:Import |Option )?"([^"\s]{1,200})"')
_WORD: Final = re.compile(r"\w+")
_LIKE: Final = 0.7
_MAX_NAMES: Final = 2_000
_MAX_LINE: Final = 200  # characters before a place


def with_advice(problem: ProtoProblem, texts: Mapping[str, str]) -> ProtoProblem:
    """Return a problem that ends with `; did you mean …?` where something is near.

    Where protoc says no place, such as for types in maps, it is that of the word in the file.
    """
    quoted, text = _QUOTED.match(problem.detail), texts.get(problem.file, "")
    known = list(_candidates(problem.detail, texts))
    if not quoted:
        words = _words_at(text, problem.line, problem.column)
        near = next((each for word in words if (each := _keyword(word, known))), "")
        return _with_hint(problem, near)
    written = quoted[1]
    if not problem.line and (found := re.search(rf"\b{re.escape(written)}\b", text)):
        start = found.start()
        line, column = text.count("\n", 0, start) + 1, start - text.rfind("\n", 0, start)
        problem = replace(problem, line=line, column=column)
    last = f".{written.rpartition('.')[2]}"
    same = "" if "/" in written else next((each for each in known if each.endswith(last)), "")
    return _with_hint(problem, same or nearest_name(written, known, least=_LIKE))


def _with_hint(problem: ProtoProblem, near: str) -> ProtoProblem:
    if not near or f'"{near}"' in problem.detail:
        return problem
    return replace(problem, detail=f"{problem.detail.rstrip('.')}; did you mean {near}?")


def _keyword(word: str, known: list[str]) -> str:
    """Return the keyword that a word is like, "" for one that is known."""
    return "" if word in known or word in _SCALARS else nearest_name(word, known, least=_LIKE)


def _candidates(detail: str, texts: Mapping[str, str]) -> Iterator[str]:
    if " is not defined" in detail or "seems to be defined" in detail:
        yield from (*_SCALARS, *_WELL_KNOWN)
        declared = (found for text in texts.values() for found in _DECLARED.findall(text))
        for _, name in zip(range(_MAX_NAMES), declared, strict=False):
            yield name
    elif detail.startswith("Import "):
        yield from (*_IMPORTS, *texts)
    elif detail.startswith("Option "):
        yield from _OPTIONS
    else:
        yield from _KEYWORDS


def _words_at(text: str, line: int, column: int) -> list[str]:
    """Return the word at a place, and those before it on the line."""
    found = text.split("\n")[line - 1 : line] if line else []
    if not found:
        return []
    at = _WORD.match(found[0], column - 1)
    before = _WORD.findall(found[0][max(column - _MAX_LINE, 0) : column - 1])
    return [*([at[0]] if at else ()), *before]
