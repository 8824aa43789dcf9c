"""What is wrong with a file before any evaluation: constructs outside the subset, unknown names."""

from __future__ import annotations

from collections.abc import Iterator

from kernel.cue import syntax
from kernel.cue.faults import Fault
from kernel.cue.scalars import BASIC
from kernel.cue.syntax import Label, Node, Struct

_Names = tuple[dict[str, "Label | syntax.Let"], ...]


def check(root: Struct) -> list[Fault]:
    """Every fault that the text shows without evaluating it."""
    checker = _Checker()
    checker.visit(root, ())
    refused = [fault for fault in checker.faults if fault.code == "unsupported_cue"]
    return refused or checker.faults  # names may come from what is not supported


class _Checker:
    def __init__(self) -> None:
        self.faults: list[Fault] = []
        self.used: set[syntax.Let] = set()

    def visit(self, node: Node, names: _Names) -> None:
        match node:
            case syntax.Unsupported(construct=construct):
                message = f"{construct} is not part of the supported subset of CUE"
                self._fault(node, "unsupported_cue", message)
            case syntax.Reference(name=name):
                self._reference(node, name, names)
            case syntax.Marked():
                self._fault(node, "syntax_error", "a default mark outside of a disjunction")
            case Struct():
                self._struct(node, names)
            case _:
                for child in _children(node):
                    self.visit(child, names)

    def _reference(self, node: Node, name: str, names: _Names) -> None:
        for declared in reversed(names):
            if name in declared:
                found = declared[name]
                if isinstance(found, syntax.Let):
                    self.used.add(found)
                return
        if name not in BASIC:
            self._fault(node, "unknown_reference", f"nothing is declared under the name {name}")

    def _struct(self, struct: Struct, names: _Names) -> None:
        inside = (*names, struct.names)
        for child in _children(struct):
            self.visit(child, inside)
        for let in struct.lets:
            others = {name: found for name, found in struct.names.items() if name != let.name}
            self.visit(let.value, (*names, others))
        for let in struct.lets:
            if let not in self.used:
                self._fault(let, "unknown_reference", f"nothing refers to {let.name}")

    def _fault(self, node: Node, code: str, message: str) -> None:
        self.faults.append(Fault(node.line, node.column, code, message))


def _children(node: Node) -> Iterator[Node]:
    match node:
        case Struct():
            yield from node.unsupported
            for pattern in node.patterns:
                yield pattern.pattern
            decls: tuple[syntax.Field | syntax.Pattern | syntax.Embedding, ...] = (
                *node.fields,
                *node.patterns,
                *node.embeddings,
            )
            for decl in decls:
                yield decl.value
        case syntax.Unification(parts=parts) | syntax.Interpolation(parts=parts):
            yield from parts
        case syntax.Disjunction(alternatives=alternatives):
            yield from (operand for _, operand in alternatives)
        case syntax.ListLiteral(items=items, rest=rest):
            yield from items
            if rest is not None:
                yield rest
        case _:
            yield from _operands(node)


def _operands(node: Node) -> Iterator[Node]:
    match node:
        case syntax.Selector(base=base):
            yield base
        case syntax.Index(base=base, index=index):
            yield base
            yield index
        case syntax.Call(argument=argument):
            yield argument
        case syntax.Bound(operand=operand) | syntax.Sign(operand=operand):
            yield operand
        case syntax.Parenthesis(inner=inner):
            yield inner
        case _:
            return
