"""The nodes of schema examples: what they are, and how files say them (control-plane 6.3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Final, TypeAlias

from readers.tree import Kind, Tree
from surfaces.forms import (
    INTEGER,
    PATTERN,
    RAW_TEXT,
    TEXT,
    FileNotes,
    Form,
    Schema,
    is_near,
    list_of,
    read_text,
    refuse_larger,
    unreadable_at,
    whole,
    word,
    wrong_kind,
)
from surfaces.records import FileRecord, Named, fields_of, read_record
from surfaces.template_checks import check_path, check_templates
from surfaces.text_maps import header_nodes
from surfaces.trees import is_small, items, members, text_of

JsonScalar: TypeAlias = str | int | float | bool | None
TYPES: Final = ("object", "array", "string", "integer", "number", "boolean", "null")
GENERATORS: Final = ("uuid", "timestamp", "int", "string", "pick", "boolean")
MAX_LENGTH: Final = 10_000  # of a generated string
_TYPE: Final = word("a type", *TYPES, advice=", or write the value below example")
_KIND: Final = word("a kind of gen", *GENERATORS)


class Generator(FileRecord, frozen=True, kw_only=True):
    """A generated value; `options` are the strings that `pick` chooses from."""

    label: ClassVar = "gen"
    is_lenient: ClassVar = True
    kind: Annotated[str, _KIND]
    prefix: Annotated[str, RAW_TEXT] = ""
    suffix: Annotated[str, RAW_TEXT] = ""
    layout: Annotated[str, RAW_TEXT, "of timestamp: yyyy MM dd HH mm ss SSS"] = ""
    minimum: Annotated[int, Named("min"), INTEGER, "of int"] = 0
    maximum: Annotated[int, Named("max"), INTEGER, "of int"] = 2**31 - 1
    length: Annotated[int, whole(0, MAX_LENGTH), "of string"] = 12
    options: Annotated[tuple[str, ...], list_of(RAW_TEXT), "of pick"] = ()

    def __post_init__(self) -> None:
        if self.kind == "pick" and not self.options:
            raise ValueError("gen.kind pick requires options")
        if self.minimum > self.maximum:
            raise ValueError("gen.min is larger than gen.max")


def _check_path(tree: Tree) -> None:
    if tree.text:  # otherwise it is missing
        check_path(tree)


class Resolve(FileRecord, frozen=True, kw_only=True):
    """A value of the request, the state or the operation, by its path."""

    label: ClassVar = "resolve"
    is_lenient: ClassVar = True
    path: Annotated[str, TEXT.with_check(_check_path), "such as request.body.id"]
    fallback: Annotated[str | None, RAW_TEXT, "where there is none"] = None
    prefix: Annotated[str, RAW_TEXT] = ""
    suffix: Annotated[str, RAW_TEXT] = ""


def _shorthand(kind: type[FileRecord], key: str) -> Form:
    """Return the form of a mapping, of which people write its first key alone."""

    def read(tree: Tree, label: str, notes: FileNotes) -> FileRecord:
        if tree.kind is not Kind.MAP and text_of(tree):
            raise unreadable_at(tree, f"write {label}: {{{key}: {text_of(tree)[:80]}}}")
        return read_record(kind, tree, notes)

    return Form(read, {"$ref": kind})


GEN: Final = _shorthand(Generator, "kind")
RESOLVE: Final = _shorthand(Resolve, "path")


class ComposePart(FileRecord, frozen=True, kw_only=True):
    """A part of `compose` that is not text: one of these."""

    label: ClassVar = "a part of compose"
    gen: Annotated[Generator | None, GEN] = None
    resolve: Annotated[Resolve | None, RESOLVE] = None


class Compose(FileRecord, frozen=True, kw_only=True):
    """`compose`: literal texts and values one after the other."""

    parts: tuple[str | Generator | Resolve, ...]


class Template(FileRecord, frozen=True, kw_only=True):
    text: str


def _part(tree: Tree, key: str, notes: FileNotes) -> str | Generator | Resolve:
    if tree.kind is not Kind.MAP:
        return text_of(tree)
    given = read_record(ComposePart, tree, notes)
    found = given.gen or given.resolve
    if found is None:
        raise unreadable_at(tree, "a part of compose is a text, {gen: …} or {resolve: …}")
    return found


def _compose(tree: Tree, key: str, notes: FileNotes) -> Compose:
    return Compose(parts=tuple(_part(each, key, notes) for each in items(tree)))


def _template(tree: Tree, key: str, notes: FileNotes) -> Template:
    check_templates(tree)
    return Template(text=read_text(tree, key, notes))


def _scalar(tree: Tree, _key: str, _notes: FileNotes) -> JsonScalar:
    if tree.kind in (Kind.MAP, Kind.LIST):
        raise unreadable_at(tree, "enum takes single values only")
    value: JsonScalar = tree.plain()
    return value


def _literal(tree: Tree, key: str, _notes: FileNotes) -> tuple[object, ...]:
    if not is_small(tree, values=2_000, characters=100_000):
        raise unreadable_at(tree, f"{key} is too large")
    return (tree.plain(),)


def _nodes(tree: Tree, key: str, notes: FileNotes) -> Mapping[str, ValueNode]:
    if tree.kind is not Kind.MAP:
        raise wrong_kind(tree, f"{key} must be a mapping")
    return {name: read_node(each, key, notes) for name, each in tree.pairs.items()}


def read_node(tree: Tree, key: str, notes: FileNotes) -> ValueNode:
    """Return a node; raise Unreadable at the first value that does not fit.

    A literal in place of a node is an example of the value, and its type the constraint.
    """
    if is_literal(tree):
        return _literal_node(tree, key, notes)
    return read_record(ValueNode, tree, notes)


def _root(tree: Tree, key: str, notes: FileNotes) -> ValueNode:
    refuse_larger(tree, "schema")
    return read_node(tree, key, notes)


def _headers(tree: Tree, key: str, notes: FileNotes) -> ValueNode:
    return _root(header_nodes(tree), key, notes)


_PART: Final = {"anyOf": [{"type": "string"}, {"$ref": ComposePart}]}
_NODE_SCHEMA: Final[Schema] = {}
_NODE: Final = Form(read_node, _NODE_SCHEMA, "blank")
_LITERAL: Final = Form(_literal, {}, "null")
NODE: Final = Form(_root, _NODE_SCHEMA, "blank")
HEADER_NODES: Final = Form(_headers, _NODE_SCHEMA)


class ValueNode(FileRecord, frozen=True, kw_only=True):
    """A node of a schema example.

    `const` and `example` are empty or hold one value. `source` makes the value, if set.
    """

    label: ClassVar = "a node"
    is_lenient: ClassVar = True
    informational: ClassVar = ("title", "description", "default", "examples", "deprecated")
    type: Annotated[str, _TYPE] = ""
    properties: Annotated[
        Mapping[str, ValueNode],
        Form(_nodes, {"type": "object", "additionalProperties": _NODE_SCHEMA}),
    ] = {}
    required: Annotated[tuple[str, ...], list_of(RAW_TEXT, of_mappings=False)] = ()
    items: Annotated[ValueNode | None, _NODE, "what each item is"] = None
    enum: Annotated[tuple[JsonScalar, ...], list_of(Form(_scalar, {}, "null"))] = ()
    const: Annotated[tuple[object, ...], _LITERAL, "what a value must be equal to"] = ()
    example: Annotated[tuple[object, ...], _LITERAL, "the value"] = ()
    pattern: Annotated[str, PATTERN, "RE2"] = ""
    minimum: float | None = None
    maximum: float | None = None
    min_length: int | None = None
    max_length: int | None = None
    gen: Annotated[Generator | None, GEN] = None
    resolve: Annotated[Resolve | None, RESOLVE] = None
    compose: Annotated[Compose | None, Form(_compose, {"type": "array", "items": _PART})] = None
    template: Annotated[Template | None, Form(_template, {"type": "string"}, "blank")] = None

    def __post_init__(self) -> None:
        given = [name for name in _SOURCES if getattr(self, name) is not None]
        if len(given) > 1:
            raise ValueError(f"only one of {', '.join(given)} may be set")

    @property
    def source(self) -> Generator | Resolve | Compose | Template | None:
        """Return what makes the value, None where nothing does."""
        return self.gen or self.resolve or self.compose or self.template


_SOURCES: Final = ("gen", "resolve", "compose", "template")


_KEYS: Final = tuple(each.keys[0][0] for each in fields_of(ValueNode).listed)
_FOLDED: Final = frozenset(key.casefold() for key in _KEYS)
# a mapping without any of these keys is a literal
_NODE_SCHEMA["if"] = {"type": "object", "anyOf": [{"required": [key]} for key in _KEYS]}
_NODE_SCHEMA["then"] = {"$ref": ValueNode}


def is_literal(tree: Tree) -> bool:
    """Return whether this is a value and not a node, which has at least one key of nodes."""
    if tree.kind is not Kind.MAP or not tree.pairs:
        return tree.kind is not Kind.MAP
    return not any(key.casefold() in _FOLDED for key in tree.pairs)


def _literal_node(tree: Tree, key: str, notes: FileNotes) -> ValueNode:
    if tree.kind is Kind.MAP:
        if all(is_near(each, _FOLDED) for each in tree.pairs):
            read_record(ValueNode, tree, notes)
        below = {name: read_node(each, name, notes) for name, each in members(tree)}
        return ValueNode(type="object", properties=below)
    if tree.kind is Kind.LIST:
        first = next(iter(tree.items), None)
        example = (tree.plain(),) if is_small(tree, values=2_000, characters=100_000) else ()
        below_list = None if first is None else read_node(first, key, notes)
        return ValueNode(type="array", items=below_list, example=example)
    if tree.kind is Kind.STRING and "{{" in tree.text:
        return ValueNode(type="string", template=_template(tree, key, notes))
    value = tree.plain()
    kind = "integer" if isinstance(value, int) else "number"
    return ValueNode(type=_SCALARS.get(tree.kind, kind), example=(value,))


_SCALARS: Final = {Kind.STRING: "string", Kind.BOOL: "boolean", Kind.NULL: ""}
