"""The reader: text to tree, or all diagnostics at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final, TypeVar

from cue.checking import check
from cue.evaluator import Evaluator
from cue.exporting import Exporter, faults
from cue.faults import Broken, Budget, Fault, outside, too_large
from cue.parsing import parse
from cue.program import Program, is_of_package
from cue.syntax import Struct
from cue.vertex import Conjunct, Vertex
from readers.diagnostics import Diagnostic
from readers.tree import Tree

MAX_DIAGNOSTICS: Final = 50
T = TypeVar("T")


class CueError(ValueError):
    """A file that gives no concrete value; `diagnostics` say all that is wrong, by position."""

    def __init__(self, diagnostics: list[Diagnostic]) -> None:
        super().__init__("\n".join(map(str, diagnostics)))
        self.diagnostics = diagnostics


def evaluate(text: str, *, file: str, path: str = "", binary: str = "") -> Tree:
    """The concrete value of a CUE file, called `file` in messages. Raises CueError.

    Text beyond 4 MiB, nesting beyond 64, and evaluation beyond a number of steps that grows with
    the text are diagnostics like any other. A file that uses more of CUE than the subset, or names
    of another file of its package, is given to the program `binary` where one is named; then
    values have no places. `path`: where the text was read, so that its module and package count.
    """
    try:
        return _evaluated_here(text, file)
    except CueError as error:
        told = _of_package(error, text, path)
        if not binary or any(found.code != "unsupported_cue" for found in told.diagnostics):
            raise told from None
    return bounded(lambda: Program(binary).export(text, path), file)


def _of_package(error: CueError, text: str, path: str) -> CueError:
    """Names that nothing declares may be those of another file of the package."""
    codes = {found.code for found in error.diagnostics}
    if not codes <= {"unknown_reference", "unsupported_cue"} or not is_of_package(text, path):
        return error
    message = outside("a package of several files")
    return CueError(
        [replace(found, code="unsupported_cue", message=message) for found in error.diagnostics[:1]]
    )


def _evaluated_here(text: str, file: str) -> Tree:
    def run() -> tuple[list[Fault], Tree]:
        root = checked(parse(text))
        vertex = Vertex((), [Conjunct(root, None)])
        Evaluator(Budget(len(text))).complete(vertex)
        exporter = Exporter()
        tree = exporter.tree(vertex)
        return [*faults(vertex), *exporter.faults], tree

    found, tree = bounded(run, file)
    if found:
        raise CueError(diagnostics(found, file))
    return tree


def bounded(run: Callable[[], T], file: str) -> T:
    """What `run` returns; limits and faults of the text as CueError."""
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


def checked(root: Struct) -> Struct:
    """The same struct. Raises Faulty for what its text alone shows to be wrong."""
    if found := check(root):
        raise Faulty(found)
    return root


def diagnostics(found: Iterable[Fault], file: str) -> list[Diagnostic]:
    """Sorted by position, each thing said once, at most fifty."""
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
