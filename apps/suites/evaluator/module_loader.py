"""The modules that a suite loads, in the child process: ours, and those of packages.

Modules of packages are foreign text: each of their files has the limits of a suite.star, and they
may declare nodes in functions only.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import starlark

from apps.suites.domain.calls import ModulePackage
from apps.suites.domain.problems import TopologyProblem
from apps.suites.evaluator import diagnosis
from apps.suites.evaluator.diagnosis import SuiteSource
from kernel.errors import known_names

MODULES: Final = Path(__file__).with_name("modules")
SHARED: Final = "shared"  # what modules of ours share; suites cannot load it
RUNTIME: Final = "runtime"
BUILT_IN_MODULES: Final = tuple(
    sorted(path.stem for path in MODULES.glob("*.star") if path.stem != SHARED)
)
LABEL: Final = re.compile(r"^@([A-Za-z0-9._-]+)/([A-Za-z0-9._-]+)\Z")
PACKAGE_NAMES: Final = ("utils", "true", "false", "null", "print")  # predeclared in packages
_NOT_EXPORTED: Final = ("module.star", "usage.star")
_PRELUDE: Final = "prelude"
_CODES: Final = ("package_invalid", "digest_mismatch")
_NAME: Final = re.compile(r"^[A-Za-z]\w*\Z")
_PUBLIC: Final = re.compile(r"^(?:def[ \t]+([A-Za-z]\w*)|([A-Za-z]\w*)[ \t]*=(?!=))", re.MULTILINE)

FrozenModule = Any  # of starlark-pyo3, which has no types


def exported_files(paths: Mapping[str, object]) -> list[str]:
    """Return the files of a module whose public names a suite can load, by path."""
    return sorted(
        path
        for path in paths
        if path.endswith(".star") and not path.startswith("_") and path not in _NOT_EXPORTED
    )


def public_names(text: str) -> list[str]:
    """Return the names that a file defines at its left edge, each once."""
    found = (function or value for function, value in _PUBLIC.findall(text))
    return [name for name in dict.fromkeys(found) if name]


class UnknownSymbol(TopologyProblem):
    """A module has no public name `symbol`."""

    def __init__(self, label: str, symbol: str, known: Iterable[str]) -> None:
        message = f'load("{label}"): it has no "{symbol[:100]}"{known_names(known)}'
        super().__init__("symbol_not_found", message)
        self.symbol = symbol


class ModuleLoader:
    """Loads modules, each once.

    `options` returns the limits of one evaluation. `prelude` has `names`, which suites see.
    """

    def __init__(
        self,
        prelude: FrozenModule,
        names: tuple[str, ...],
        packages: Mapping[str, ModulePackage],
        options: Callable[[], Any],
    ) -> None:
        self._prelude = prelude
        self._names = names
        self._packages = packages
        self._options = options
        self._ours: dict[str, FrozenModule] = {}
        self._files: dict[tuple[str, str], FrozenModule] = {}
        self._loading: list[tuple[str, str]] = []
        self._loaded: dict[tuple[str, str], set[str]] = {}  # names that a file only loads

    @property
    def is_loading(self) -> bool:
        """Tell whether the text of a package's module is being evaluated."""
        return bool(self._loading)

    def load(self, label: str, wanted: list[str]) -> FrozenModule:
        """Return the module of a label; raise TopologyProblem without a position.

        `wanted` are the names that the suite asks for.
        """
        match = LABEL.match(label)
        if match is None:
            raise TopologyProblem(
                "module_not_found",
                f'load("{label}"): a label has the form "@scope/module", such as '
                '"@partita/runtime"',
            )
        if match[2] == RUNTIME:
            return self._check_symbols(label, self._prelude, wanted, self._names)
        if match[2] in BUILT_IN_MODULES:
            names = public_names(_text_of_ours(match[2]))
            return self._check_symbols(label, self._built_in(match[2]), wanted, names)
        if label in self._packages:
            return self._package(label, wanted)
        known = ", ".join((RUNTIME, *BUILT_IN_MODULES, *sorted(self._packages)))
        raise TopologyProblem(
            "module_not_found",
            f'load("{label}"): there is no such module in the workspace, and the lock of the '
            f"suite pins none (`partita suite lock` pins those of registries); known: {known}",
        )

    def _check_symbols(
        self,
        label: str,
        module: FrozenModule,
        wanted: list[str],
        known: tuple[str, ...] | list[str],
    ) -> FrozenModule:
        for name in wanted:
            if name not in known:
                raise UnknownSymbol(label, name, known)
        return module

    def _built_in(self, name: str) -> FrozenModule:
        """Return a module of ours; its functions see what a suite sees."""
        if name not in self._ours:
            others = {_PRELUDE: self._prelude}
            if name != SHARED:
                others[SHARED] = self._built_in(SHARED)
            module = self._module_with(
                self._names if name != SHARED else (*self._names, "suite_file")
            )
            loader = starlark.FileLoader(others.__getitem__)
            text = _text_of_ours(name)
            if name == SHARED:
                text += "\nsuite_file = suite_file\n"
            starlark.eval(
                module, diagnosis.parse_starlark(f"{name}.star", text), _globals(), loader
            )
            self._ours[name] = module.freeze()
        return self._ours[name]

    def _module_with(self, names: tuple[str, ...]) -> Any:
        """Return a new module in which names of the prelude are predeclared."""
        module = starlark.Module()
        listed = ", ".join(f'"{name}"' for name in names)
        loader = starlark.FileLoader(lambda _: self._prelude)
        text = diagnosis.parse_starlark(_PRELUDE, f'load("{_PRELUDE}", {listed})\n')
        starlark.eval(module, text, _globals(), loader)
        return module

    def _package(self, label: str, wanted: list[str]) -> FrozenModule:
        """Return a module with the wanted names, from the exported files of a package."""
        package = self._packages[label]
        if problem := package["problem"]:
            code = package["code"] if package["code"] in _CODES else "module_not_found"
            raise TopologyProblem(code, f'load("{label}"): {problem}')
        exported = exported_files(package["files"])
        modules = {path: self._file(label, path) for path in exported}
        sources = {name: self._source_of(label, name, modules) for name in wanted}
        merged = starlark.Module()
        for number, (name, path) in enumerate(sources.items()):
            text = f'load("{path}", _{number} = "{name}")\n{name} = _{number}\nNone\n'
            loader = starlark.FileLoader(modules.__getitem__)
            starlark.eval(merged, diagnosis.parse_starlark(label, text), _globals(), loader)
        return merged.freeze()

    def _source_of(self, label: str, name: str, modules: Mapping[str, FrozenModule]) -> str:
        """Return the exported file that defines a name."""
        holders = [
            path
            for path, module in modules.items()
            if name not in self._loaded[label, path] and _has(module, name)
        ]
        if not holders:
            texts = self._packages[label]["files"]
            raise UnknownSymbol(
                label, name, [each for path in modules for each in public_names(texts[path])]
            )
        if len(holders) > 1:
            raise TopologyProblem(
                "package_invalid", f'load("{label}"): {" and ".join(holders)} both define "{name}"'
            )
        return holders[0]

    def _file(self, label: str, path: str) -> FrozenModule:
        """Evaluate a file of a package, once."""
        key = label, path
        if key not in self._files:
            if key in self._loading:
                files = [each for _, each in self._loading]
                cycle = " -> ".join([*files[files.index(path) :], path])
                raise TopologyProblem("eval_error", f"{label}: files load each other: {cycle}")
            with self._in_progress(label, path):
                self._files[key] = self._evaluate(label, path)
        return self._files[key]

    @contextmanager
    def _in_progress(self, label: str, path: str) -> Iterator[None]:
        self._loading.append((label, path))
        try:
            yield
        finally:
            self._loading.pop()

    def _evaluate(self, label: str, path: str) -> FrozenModule:
        source = SuiteSource(self._packages[label]["files"][path], name=f"{label}/{path}")
        raised: list[TopologyProblem] = []

        def load(wanted: str) -> FrozenModule:
            try:
                return self._for_file(label, path, wanted)
            except TopologyProblem as problem:
                raised.append(problem)
                raise

        try:
            module = self._module_with(PACKAGE_NAMES)
            text = diagnosis.parse_starlark(source.name, source.for_parser())
            names = (name for each in text.loads() for name in each.symbols)
            self._loaded[label, path] = {*names, *PACKAGE_NAMES}
            loader = starlark.FileLoader(load)
            starlark.eval_with(self._options(), module, text, _globals(), loader)
        except starlark.StarlarkError as error:
            problem = raised[0] if raised else diagnosis.problem_of(str(error), source)
            place = [source.name, *(str(each) for each in (problem.line, problem.column) if each)]
            said = problem.message if raised else f"{':'.join(place)}: {problem.message}"
            raise TopologyProblem(problem.code, said) from None
        return module.freeze()

    def _for_file(self, label: str, path: str, wanted: str) -> FrozenModule:
        """Return what a file of a package may load: its siblings, the runtime, modules of ours."""
        match = LABEL.match(wanted)
        if match and match[2] == RUNTIME:
            return self._prelude
        if match and match[2] in BUILT_IN_MODULES:
            return self._built_in(match[2])
        if wanted in self._packages[label]["files"]:
            return self._file(label, wanted)
        siblings = known_names(each for each in self._packages[label]["files"] if each != path)
        raise TopologyProblem(
            "module_not_found",
            f'{label}/{path}: load("{wanted}"): a file of a module loads its own files, '
            f"@partita/runtime and built-in modules only{siblings}",
        )


def _has(module: FrozenModule, name: str) -> bool:
    if not _NAME.match(name):
        return False
    text = diagnosis.parse_starlark("question", f'load("it", _it = "{name}")\nNone\n')
    try:
        starlark.eval(starlark.Module(), text, _globals(), starlark.FileLoader(lambda _: module))
    except starlark.StarlarkError:
        return False
    return True


def _text_of_ours(name: str) -> str:
    return MODULES.joinpath(f"{name}.star").read_text(encoding="utf-8")


def _globals() -> Any:
    return starlark.Globals.extended_by([starlark.LibraryExtension.StructType])
