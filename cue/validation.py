"""The check of a value of any format against a schema in CUE, and the schema's attributes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation

from cue.evaluation.evaluator import Evaluator
from cue.evaluation.vertex import Conjunct, Env, Vertex
from cue.export import CueError, Exporter, diagnostics, faults, require_valid, translate_faults
from cue.faults import Budget, Fault, may_know
from cue.language import syntax
from cue.language.parser import parse
from cue.language.syntax import Label, Node
from cue.program import Program
from readers.diagnostics import Diagnostic
from readers.tree import Attribute, Kind, Tree

_ATTRIBUTE = re.compile(r"@[A-Za-z]\w*\(")
CONFIG = Label("#Config", special=True)
Path = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Vetted:
    """`attributes`: of each value that has some, by its path as `Tree.walk` gives it."""

    diagnostics: list[Diagnostic]
    attributes: Mapping[Path, tuple[Attribute, ...]]


def vet(schema_text: str, value: Tree, *, file: str) -> list[Diagnostic]:
    """Return the errors of a value under a schema, at the value's positions in `file`.

    Messages name positions, types and bounds, never the value. Raise CueError for a schema that
    cannot be read, with diagnostics of the schema's text.
    """
    return vet_with_attributes(schema_text, value, file=file).diagnostics


def vet_with_attributes(
    schema_text: str, value: Tree, *, file: str, schema_file: str = "schema", binary: str = ""
) -> Vetted:
    """Return the errors and the attributes that the schema gives to the value's members.

    The program `binary`, if set, checks schemas that use more of CUE than the subset, also those
    that are errors of syntax here. It returns
    no attributes, so a schema with attributes is refused nevertheless.
    """
    try:
        return _vet_here(schema_text, value, file=file, schema_file=schema_file)
    except CueError as error:
        ours = error
    codes = {found.code for found in ours.diagnostics}
    if not binary or not may_know(codes) or _ATTRIBUTE.search(schema_text):
        raise ours
    try:
        found = translate_faults(lambda: Program(binary).vet(schema_text, value), schema_file)
    except CueError as theirs:
        raise (ours if codes == {"syntax_error"} else theirs) from None
    return Vetted(diagnostics=diagnostics(_place(found, value), file), attributes={})


def _place(found: list[Fault], value: Tree) -> list[Fault]:
    places = {path: (member.line, member.column) for path, member in value.walk()}
    return [_in_value(fault, places) for fault in found]


def _vet_here(schema_text: str, value: Tree, *, file: str, schema_file: str) -> Vetted:

    def run() -> Vetted:
        root = require_valid(parse(schema_text))
        size = len(schema_text) + 20 * sum(1 for _ in value.walk())
        vertex = _against(root, value, Evaluator(Budget(size)))
        exporter = Exporter()
        exporter.tree(vertex)
        found = _place([*faults(vertex), *exporter.faults], value)
        return Vetted(diagnostics=diagnostics(found, file), attributes=dict(_attributes(vertex)))

    return translate_faults(run, schema_file)


def _against(root: syntax.Struct, value: Tree, evaluator: Evaluator) -> Vertex:
    """Return the value unified with `#Config`, or with the whole schema."""
    schema: list[Conjunct] = [Conjunct(root, None)]
    if CONFIG in root.names.values():
        whole = Vertex((), schema)
        evaluator.collect(whole)
        reference = syntax.Reference(name=CONFIG.name, line=1, column=1)
        schema = [Conjunct(reference, Env(whole, root, None))]
    vertex = Vertex((), [*schema, Conjunct(_node(value), None)])
    evaluator.complete(vertex)
    return vertex


def _in_value(fault: Fault, places: Mapping[Path, tuple[int, int]]) -> Fault:
    """Return the fault at the position of the value, or of what should have held it."""
    path = fault.trace
    while path and path not in places:
        path = path[:-1]
    line, column = places[path]
    return replace(fault, line=line, column=column)


def _attributes(vertex: Vertex, path: Path = ()) -> Iterator[tuple[Path, tuple[Attribute, ...]]]:
    if vertex.attributes:
        yield path, vertex.attributes
    for key, member in vertex.view().arcs.items():
        if isinstance(key, int) or not key.special:
            yield from _attributes(member, (*path, str(key if isinstance(key, int) else key.name)))


def _node(value: Tree) -> Node:
    match value.kind:
        case Kind.MAP:
            fields = tuple(_field(key, member) for key, member in value.pairs.items())
            return syntax.Struct(fields=fields, line=value.line, column=value.column)
        case Kind.LIST:
            items = tuple(_node(item) for item in value.items)
            return syntax.ListLiteral(items=items, line=value.line, column=value.column)
        case Kind.NUMBER:
            return _number(value)
        case _:
            content = value.plain()
            return syntax.Constant(value=content, line=value.line, column=value.column)


def _field(key: str, value: Tree) -> syntax.Field:
    mark, node = syntax.Mark.REGULAR, _node(value)
    return syntax.Field(
        label=Label(key), mark=mark, value=node, line=value.line, column=value.column
    )


def _number(value: Tree) -> Node:
    """Return a number as other formats spell it; others, such as `.inf`, are text to a schema."""
    place = {"line": value.line, "column": value.column}
    try:
        number = Decimal(value.text)
    except InvalidOperation:
        return syntax.Constant(value=value.text, line=value.line, column=value.column)
    if not number.is_finite():
        return syntax.Constant(value=value.text, line=value.line, column=value.column)
    is_int = value.text.lstrip("+-").isdigit()
    return syntax.Number(value=number, is_int=is_int, text=value.text, **place)
