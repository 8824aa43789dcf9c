"""The evaluation of a file to a tree of concrete values, or to all of its errors at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Final, TypeVar

from cue.evaluation.evaluator import Evaluator
from cue.evaluation.vertex import Conjunct, Path, Vertex
from cue.faults import Broken, Budget, Fault, may_know, outside, too_large
from cue.language.parser import parse
from cue.language.syntax import Label, Struct
from cue.program import Program, is_of_package
from cue.scalars import Type
from cue.static_checks import check
from readers.diagnostics import Diagnostic, dotted_path
from readers.tree import Kind, Tree

MAX_DIAGNOSTICS: Final = 50
T = TypeVar("T")


class CueError(ValueError):
    """A file without a concrete value; `diagnostics` lists its errors by position."""

    def __init__(self, diagnostics: list[Diagnostic]) -> None:
        super().__init__("\n".join(map(str, diagnostics)))
        self.diagnostics = diagnostics


def evaluate(text: str, *, file: str, path: str = "", binary: str = "") -> Tree:
    """Return the concrete value of a CUE file, called `file` in messages. Raise CueError.

    The message of a function as a constraint names the value that does not satisfy it.

    Text beyond 4 MiB, nesting beyond 64, and too many steps for the length of the text are errors
    like any other. The program `binary`, if set, reads files that use more of CUE than the subset,
    or names of other files of their package; the values then have no positions. It is asked about
    errors of syntax too, since it may know more of it; if it finds one as well, ours stays, which
    has a position. `path`: where the text was read, so that its module and package count.
    """
    try:
        return _evaluate_here(text, file)
    except CueError as error:
        ours = _of_package(error, text, path)
    codes = {found.code for found in ours.diagnostics}
    if not binary or not may_know(codes):
        raise ours
    try:
        return translate_faults(lambda: Program(binary).export(text, path), file)
    except CueError as theirs:
        raise (ours if codes == {"syntax_error"} else theirs) from None


def _of_package(error: CueError, text: str, path: str) -> CueError:
    """Return the error of a package of several files if unknown names may come from them."""
    codes = {found.code for found in error.diagnostics}
    if not codes <= {"unknown_reference", "unsupported_cue"} or not is_of_package(text, path):
        return error
    message = outside("a package of several files")
    return CueError(
        [replace(found, code="unsupported_cue", message=message) for found in error.diagnostics[:1]]
    )


def _evaluate_here(text: str, file: str) -> Tree:
    def run() -> tuple[list[Fault], Tree]:
        root = require_valid(parse(text))
        vertex = Vertex((), [Conjunct(root, None)])
        Evaluator(Budget(len(text)), shows_values=True).complete(vertex)
        exporter = Exporter()
        tree = exporter.tree(vertex)
        return [*faults(vertex), *exporter.faults], tree

    found, tree = translate_faults(run, file)
    if found:
        raise CueError(diagnostics(found, file))
    return tree


def translate_faults(run: Callable[[], T], file: str) -> T:
    """Return what `run` returns; raise limits and faults of the text as CueError."""
    try:
        return run()
    except Broken as error:
        found = [error.fault]
    except RecursionError:
        found = [too_large("nests too deep").fault]
    except Faulty as error:
        found = error.faults
    raise CueError(diagnostics(found, file))


class Faulty(Exception):
    """Faults that keep a file from being evaluated."""

    def __init__(self, found: list[Fault]) -> None:
        super().__init__()
        self.faults = found


def require_valid(root: Struct) -> Struct:
    """Return the struct; raise Faulty for the errors that need no evaluation."""
    if found := check(root):
        raise Faulty(found)
    return root


def diagnostics(found: Iterable[Fault], file: str) -> list[Diagnostic]:
    """Return at most fifty distinct diagnostics, sorted by position."""
    made = {
        (fault.line, fault.column, fault.code, fault.message): Diagnostic(
            file=file,
            line=fault.line,
            column=fault.column,
            path=fault.path,
            code=fault.code,
            message=fault.message,
        )
        for fault in reversed(list(found))
    }
    return sorted(made.values(), key=Diagnostic.order)[:MAX_DIAGNOSTICS]


_NOTHING = Tree(kind=Kind.NULL)
_KINDS = {Type.STRING: Kind.STRING, Type.BOOL: Kind.BOOL, Type.NULL: Kind.NULL}


def path_text(path: Path) -> str:
    return dotted_path(tuple(part if isinstance(part, int) else part.name for part in path))


def faults(vertex: Vertex) -> Iterator[Fault]:
    """Yield each conflict at and below a vertex, also in hidden fields and definitions."""
    for fault in vertex.faults:
        yield _place(fault, vertex)
    if vertex.failed and not vertex.choices:
        for member in vertex.arcs.values():
            yield from faults(member)


def _place(fault: Fault, vertex: Vertex) -> Fault:
    return fault_at(fault.line, fault.column, fault.code, fault.message, vertex.path)


def fault_at(line: int, column: int, code: str, message: str, path: Path) -> Fault:
    trace = tuple(str(part if isinstance(part, int) else part.name) for part in path)
    return Fault(line, column, code, message, path_text(path), trace)


class Exporter:
    """Build the tree; `faults` collects the values that are not concrete."""

    def __init__(self) -> None:
        self.faults: list[Fault] = []

    def tree(self, vertex: Vertex) -> Tree:
        settled = vertex.resolve_choices()
        if vertex.faults:
            return _NOTHING  # said already
        if settled is None:
            count = len(vertex.preferred_alternatives())
            self._lacking(vertex, f"ambiguous: {count} alternatives hold and none is the default")
            return _NOTHING
        made = self._value(settled, vertex)
        return replace(made, line=settled.line, column=settled.column, attributes=vertex.attributes)

    def _value(self, settled: Vertex, vertex: Vertex) -> Tree:
        for reason in settled.reasons[:1]:
            self.faults.append(_place(reason, vertex))
            return _NOTHING
        if settled.facts.scalar is not None:
            scalar = settled.facts.scalar
            if scalar.type & Type.NUMBER and math.isinf(float(scalar.text)):
                self._lacking(vertex, "the number is too large", "out_of_range")
            return Tree(kind=_KINDS.get(scalar.type, Kind.NUMBER), text=scalar.text)
        if settled.facts.types is Type.STRUCT:
            return Tree(kind=Kind.MAP, pairs=self._pairs(settled))
        if settled.facts.types is Type.LIST and settled.lists:
            items = tuple(self.tree(item) for item in settled.items())
            return Tree(kind=Kind.LIST, items=items)
        if not settled.reasons:
            self._lacking(vertex, f"no value, only {settled.facts.types.words()}")
        return _NOTHING

    def _pairs(self, vertex: Vertex) -> dict[str, Tree]:
        for label, node in vertex.required.items():
            if label not in vertex.arcs:
                path = (*vertex.path, label)
                message = f"the field {label.name} is required"
                found = fault_at(node.line, node.column, "missing_field", message, path)
                self.faults.append(found)
        return {
            key.name: self.tree(member)
            for key, member in vertex.arcs.items()
            if isinstance(key, Label) and not key.special
        }

    def _lacking(self, vertex: Vertex, message: str, code: str = "not_concrete") -> None:
        at = vertex if vertex.line or not vertex.conjuncts else vertex.conjuncts[0].expr
        line, column = at.line or 1, at.column or 1
        self.faults.append(fault_at(line, column, code, message, vertex.path))
