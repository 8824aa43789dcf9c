"""What metadata say of an operation: constraints, fallback and state (control-plane 6.2)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Final, Literal

from msgspec.structs import force_setattr

from readers.tree import Kind, Tree
from surfaces.behaviors import TEMPLATE, TEMPLATE_BODY, TEMPLATE_HEADERS, is_http
from surfaces.forms import (
    PATTERN,
    RAW_TEXT,
    STRIPPED,
    TEXTS,
    FileNotes,
    Form,
    list_of,
    unreadable_at,
    word,
)
from surfaces.records import FileRecord, record_of
from surfaces.template_checks import check_keys, check_templates

FallbackMode = Literal["static", "example", "proxy"]
ValidateMode = Literal["off", "warn", "enforce"]
FALLBACK_MODES: Final = ("static", "example", "proxy")
VALIDATE_MODES: Final = ("off", "warn", "enforce")
PARAMETER_SOURCES: Final = ("path", "query", "header", "body")
MAX_ENTRIES: Final = 100  # constraints and transitions
_LOWEST, _HIGHEST = 100, 599
_MAX_GRPC_STATUS: Final = 16
_DIGITS: Final = 18  # of an increment


def is_status(text: str, *, grpc: bool) -> bool:
    """Return whether a text is a status: 100 to 599 or, for gRPC, also a code of 0 to 16."""
    if not text.isdecimal() or len(text) > len("599"):
        return False
    number = int(text)
    return _LOWEST <= number <= _HIGHEST or (grpc and number <= _MAX_GRPC_STATUS)


class ParameterConstraint(FileRecord, frozen=True, kw_only=True):
    """What a parameter of calls must be."""

    label: ClassVar = "a parameter constraint"
    is_lenient: ClassVar = True
    name: Annotated[str, "the parameter"]
    source: Annotated[str, word("a source", *PARAMETER_SOURCES)] = "query"
    required: Annotated[bool, "whether a call without it is refused"] = False
    forward: Annotated[bool, "whether it goes to the real service and back"] = False
    pattern: Annotated[str, PATTERN, "a regular expression (RE2) that its value must match"] = ""


def check_status(tree: Tree) -> None:
    """Raise Unreadable for what is not a status of HTTP or gRPC, and no template."""
    if "{{" not in tree.text and not is_status(tree.text.strip(), grpc=True):
        raise unreadable_at(tree, f'"{tree.text[:40]}" is not a status')
    check_templates(tree)


def _check_proxy_url(tree: Tree) -> None:
    if not is_http(tree.text.strip()):
        raise unreadable_at(tree, "proxyUrl begins with http:// or https://")


def _status(tree: Tree, _key: str, _notes: FileNotes) -> str:
    check_status(tree)
    return tree.text.strip()


class Fallback(FileRecord, frozen=True, kw_only=True):
    """What answers a call that no example answers; its texts are templates."""

    label: ClassVar = "fallback"
    is_lenient: ClassVar = True
    mode: Annotated[
        FallbackMode | Literal[""],
        word("a fallback mode", *FALLBACK_MODES),
        "by what is given, where it is missing",
    ] = ""
    example_name: Annotated[str, STRIPPED, "of mode example: which one"] = ""
    proxy_url: Annotated[str, STRIPPED.with_check(_check_proxy_url), "of mode proxy: to where"] = ""
    status: Annotated[str, Form(_status, TEMPLATE.schema)] = ""
    media_type: Annotated[str, TEMPLATE] = ""
    body: Annotated[str, TEMPLATE_BODY] = ""
    headers: Annotated[Mapping[str, str], TEMPLATE_HEADERS] = {}

    def __post_init__(self) -> None:
        given = "proxy" if self.proxy_url else "example" if self.example_name else "static"
        force_setattr(self, "mode", self.mode or given)
        for mode, key, value in (
            ("proxy", "proxyUrl", self.proxy_url), ("example", "exampleName", self.example_name),
        ):  # fmt: skip
            if self.mode == mode and not value:
                raise ValueError(f"the fallback mode {mode} requires {key}")


def _increments(tree: Tree, key: str, _notes: FileNotes) -> Mapping[str, int]:
    if tree.kind is not Kind.MAP:
        raise unreadable_at(tree, f"{key} must be a mapping of integers")
    for name, each in tree.pairs.items():
        digits = each.text.removeprefix("-")
        if not digits.isdecimal() or len(digits) > _DIGITS:
            raise unreadable_at(each, f'the increment of "{name[:80]}" must be an integer')
    return {name: int(each.text) for name, each in tree.pairs.items()}


_KEY: Final = RAW_TEXT.with_check(check_keys)
_SET: Final = TEXTS.with_check(lambda tree: check_templates(*tree.pairs.values()))


class Transition(FileRecord, frozen=True, kw_only=True):
    """What becomes of a record after an answer."""

    label: ClassVar = "a transition"
    is_lenient: ClassVar = True
    on_example: Annotated[str, "after which example; after each, where it is missing"] = ""
    mutation_key_template: Annotated[str, TEMPLATE, "another record than that of the state"] = ""
    set: Annotated[Mapping[str, str], _SET, "fields; templates"] = {}
    delete: Annotated[tuple[str, ...], list_of(RAW_TEXT, of_mappings=False), "fields"] = ()
    increment: Annotated[
        Mapping[str, int],
        Form(_increments, {"type": "object", "additionalProperties": {"type": "integer"}}),
        "by how much fields grow",
    ] = {}


class StateRules(FileRecord, frozen=True, kw_only=True):
    """What calls leave behind for later ones."""

    label: ClassVar = "state"
    is_lenient: ClassVar = True
    lookup_key_template: Annotated[str, _KEY, "the record that a call reads"] = ""
    mutation_key_template: Annotated[str, _KEY, "the record that a call changes"] = ""
    defaults: Annotated[Mapping[str, str], "the fields of a record that is not there"] = {}
    transitions: Annotated[tuple[Transition, ...], list_of(record_of(Transition), MAX_ENTRIES)] = ()
