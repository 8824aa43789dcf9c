"""Errors that need no evaluation: constructs outside the subset, unknown and unused names."""

from __future__ import annotations

from collections.abc import Iterator

from cue.builtins import CORE, PACKAGES
from cue.faults import Fault, outside
from cue.language import syntax
from cue.language.syntax import Node, Struct
from cue.scalars import BASIC

_Names = tuple[dict[str, syntax.Name], ...]


def check(root: Struct) -> list[Fault]:
    """Return the faults of a file that need no evaluation."""
    checker = _Checker()
    checker.visit(root, ())
    refused = [fault for fault in checker.faults if fault.code == "unsupported_cue"]
    return refused or checker.faults  # names may come from what is not supported


class _Checker:
    def __init__(self) -> None:
        self.faults: list[Fault] = []
        self.used: set[tuple[int, str]] = set()  # the scope by its identity, and a name in it

    def visit(self, node: Node, names: _Names) -> None:
        match node:
            case syntax.Unsupported(construct=construct):
                self._refuse(node, construct)
            case syntax.Reference(name=name):
                self._reference(node, name, names)
            case syntax.Marked():
                self._fault(node, "syntax_error", "a default mark outside of a disjunction")
            case Struct():
                self._struct(node, names)
            case _:
                self._visit_inside(node, names)

    def _visit_inside(self, node: Node, names: _Names) -> None:
        match node:
            case syntax.Aliased(alias=alias, value=value):
                self._in_scope(alias, alias.scope, value, names)
            case syntax.Comprehension():
                self._comprehension(node, names)
            case syntax.Call():
                self._call(node, names)
            case syntax.Selector(base=syntax.Reference(name=name)) if _package(name, names):
                self._member(node, names)
            case _:
                for child in children(node):
                    self.visit(child, names)

    def _reference(self, node: Node, name: str, names: _Names) -> None:
        found = self._find(name, names)
        if isinstance(found, syntax.Import):
            self._refuse(node, f"the package {name} as a value")
        elif found is None and name in CORE:
            self._refuse(node, f"the function {name} as a value")
        elif found is None and name not in BASIC:
            self._fault(node, "unknown_reference", f"nothing is declared under the name {name}")

    def _find(self, name: str, names: _Names) -> syntax.Name | None:
        for declared in reversed(names):
            if name in declared:
                self.used.add((id(declared), name))
                return declared[name]
        return None

    def _in_scope(self, node: Node, scope: Struct, value: Node, names: _Names) -> None:
        self.visit(value, (*names, scope.names))
        for name in scope.names:
            if (id(scope.names), name) not in self.used:
                self._fault(node, "unknown_reference", f"nothing refers to {name}")

    def _comprehension(self, node: syntax.Comprehension, names: _Names) -> None:
        lets: list[syntax.LetClause] = []
        for clause in node.clauses:
            match clause:
                case syntax.Guard(condition=condition):
                    self.visit(condition, names)
                case syntax.Loop(source=source, scope=scope):
                    self.visit(source, names)
                    names = (*names, scope.names)
                case syntax.LetClause(let=let, scope=scope):
                    self.visit(let.value, names)
                    names = (*names, scope.names)
                    lets.append(clause)
        self.visit(node.body, names)
        for each in lets:
            if (id(each.scope.names), each.let.name) not in self.used:
                self._refuse(each, "a let clause that nothing refers to")

    def _call(self, node: syntax.Call, names: _Names) -> None:
        function = node.function
        match function:
            case syntax.Reference(name=name):
                if self._find(name, names) is not None or name not in CORE:
                    self._refuse(node, f"the function {name}()")
            case syntax.Selector(base=syntax.Reference(name=name)) if _package(name, names):
                self._member(function, names)
            case _:
                self._refuse(node, "a call of what is not a function")
        for argument in node.arguments:
            self.visit(argument, names)

    def _member(self, node: syntax.Selector, names: _Names) -> None:
        assert isinstance(node.base, syntax.Reference)
        self._find(node.base.name, names)
        package = _package(node.base.name, names)
        assert package is not None
        if node.label.name not in PACKAGES.get(package.path, {}):
            self._refuse(node, f"{node.base.name}.{node.label.name}")

    def _struct(self, struct: Struct, names: _Names) -> None:
        inside = (*names, struct.names)
        for each in struct.imports:
            if each.path not in PACKAGES:
                self._refuse(each, f'the import "{each.path}"')
        for pattern in struct.patterns:
            self.visit(pattern.pattern, inside)
            if pattern.alias is not None:
                self._in_scope(pattern.alias, pattern.alias.scope, pattern.value, inside)
            else:
                self.visit(pattern.value, inside)
        for child in children(struct):
            self.visit(child, inside)
        for let in struct.lets:
            others = {name: found for name, found in struct.names.items() if name != let.name}
            self._used_in(struct, let, (*names, others), others)
        self._check_unused(struct)

    def _used_in(
        self, struct: Struct, let: syntax.Let, names: _Names, others: dict[str, syntax.Name]
    ) -> None:
        self.visit(let.value, names)
        used = [name for name in others if (id(others), name) in self.used]
        self.used.difference_update((id(others), name) for name in used)
        self.used.update((id(struct.names), name) for name in used)

    def _check_unused(self, struct: Struct) -> None:
        named: list[syntax.Let | syntax.Import | syntax.Alias] = [*struct.lets, *struct.imports]
        named += [each.alias for each in struct.fields if each.alias is not None]
        for each in named:
            if (id(struct.names), each.name) not in self.used:
                self._fault(each, "unknown_reference", f"nothing refers to {each.name}")

    def _refuse(self, node: Node, construct: str) -> None:
        self._fault(node, "unsupported_cue", outside(construct))

    def _fault(self, node: Node, code: str, message: str) -> None:
        self.faults.append(node.fault(code, message))


def _package(name: str, names: _Names) -> syntax.Import | None:
    """The import that a name stands for, unless something nearer has it."""
    for declared in reversed(names):
        if name in declared:
            found = declared[name]
            return found if isinstance(found, syntax.Import) else None
    return None


def children(node: Node) -> Iterator[Node]:
    """The expressions of a node that see the same names as it; of a struct those inside."""
    match node:
        case Struct():
            yield from node.unsupported
            yield from node.dynamic
            declared: tuple[syntax.Field | syntax.Embedding, ...] = (*node.fields, *node.embeddings)
            for each in declared:
                yield each.value
        case syntax.ComputedField(label=label, value=value):
            yield label
            yield value
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
        case syntax.Slice(base=base, low=low, high=high):
            yield from (each for each in (base, low, high) if each is not None)
        case syntax.Operation(left=left, right=right) if node.tested_operand is None:
            yield left
            yield right
        case syntax.Operation() if node.tested_operand is not None:
            yield node.tested_operand
        case syntax.Bound(operand=operand) | syntax.Sign(operand=operand):
            yield operand
        case syntax.Parenthesis(inner=inner):
            yield inner
        case _:
            return
