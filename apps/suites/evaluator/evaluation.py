"""The evaluation of a suite's text with starlark-rust, in the child process."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NoReturn

import starlark

from apps.suites.calls import node_kinds
from apps.suites.domain.calls import (
    EvaluationAnswer,
    EvaluationRequest,
    RecordedNode,
    hints,
    read_call,
)
from apps.suites.domain.keywords import named_file
from apps.suites.domain.problems import ProblemDocument, TopologyProblem
from apps.suites.domain.text_functions import FUNCTIONS
from apps.suites.domain.topology import identities, resolve_nodes
from apps.suites.domain.values import Foreign, Handle, export
from apps.suites.evaluator import diagnosis
from apps.suites.evaluator.diagnosis import FILE, SuiteSource, parse_starlark
from apps.suites.evaluator.module_loader import ModuleLoader, UnknownSymbol

PREDECLARED: Final = ("env", "utils", "true", "false", "null", "print", "traf")
CALL_DEPTH: Final = 64
PRELUDE_DEPTH: Final = 6  # stack frames of the prelude for a call of the suite
MAX_PRINTED: Final = 100
MAX_MESSAGE: Final = 2000
MAX_PROBLEMS: Final = 50
MAX_PRINTED_BYTES: Final = 8192  # per line
_PRELUDE: Final = Path(__file__).with_name("prelude.star")
_BINDER: Final = "bound_by_the_evaluator"
_PRELUDE_LABEL: Final = "prelude"
_EPILOGUE_LABEL: Final = "epilogue"


def evaluate(request: EvaluationRequest) -> EvaluationAnswer:
    """Evaluate the text, and again if unnamed nodes are bound to globals.

    The first pass finds these globals, and the second pass uses them as the nodes' names.
    """
    answer = _EvaluationPass(request, names=()).run()
    names = identities(answer["nodes"], answer["bound"])
    late = names != [node.get("name") or _placeholder(n) for n, node in enumerate(answer["nodes"])]
    return _EvaluationPass(request, names=names).run() if late else answer


class _EvaluationPass:
    """One evaluation of the text, with names for its unnamed nodes."""

    def __init__(self, request: EvaluationRequest, *, names: Sequence[str]) -> None:
        self.source = SuiteSource(request["source"])
        self.env = request["env"]
        self.rules = request["rules"]
        self.names = names
        self.nodes: list[RecordedNode] = []
        self.printed: list[str] = []
        self.dropped_lines = 0  # further lines of print
        self.bound: dict[str, int] = {}
        self.problems: list[TopologyProblem] = []
        self._is_refused = False  # the evaluation was ended by a problem of ours
        self.loads: list[str] = []
        self._max_ticks = request["instructions"] // 1000
        self._packages = request["modules"]
        self._wanted: dict[str, list[str]] = {}
        self._loading_label = ""
        self._epilogue = False

    def run(self) -> EvaluationAnswer:
        try:
            self._evaluate()
            if self.problems:  # those of single calls; the nodes may have others
                self.problems += resolve_nodes(self.nodes, self.bound)[1]
        except starlark.StarlarkError as error:
            if not self._is_refused:
                self.problems.append(diagnosis.problem_of(str(error), self.source))
        documents: list[ProblemDocument] = [
            {"code": each.code, "message": each.message[:MAX_MESSAGE], **each.position()}
            for each in self.problems[:MAX_PROBLEMS]
        ]
        answer: EvaluationAnswer = {
            "nodes": [] if documents else self.nodes,
            "bound": self.bound,
            "printed": self._printed_lines(),
            "loads": self.loads,
            "problem": documents[0] if documents else None,
        }
        return {**answer, "more": documents[1:]} if len(documents) > 1 else answer

    def _evaluate(self) -> None:
        module, globals_ = starlark.Module(), _globals(starlark.LibraryExtension.StructType)
        self.prelude = self._frozen_prelude()
        names = (*dict(hints()), *PREDECLARED)
        self.modules = ModuleLoader(self.prelude, names, self._packages, self._options)
        loader = starlark.FileLoader(self._load)
        starlark.eval(
            module, parse_starlark(_PRELUDE_LABEL, self._names_of_prelude()), globals_, loader
        )
        # From here on, the suite can load only @scope/module.
        text = parse_starlark(FILE, self.source.for_parser())
        for load in text.loads():
            self.loads.append(load.module_id)
            self._wanted.setdefault(load.module_id, []).extend(load.symbols.values())
        starlark.eval_with(self._options(), module, text, globals_, loader)
        self._find_bound_names(module, globals_, loader)

    def _options(self) -> Any:
        """Return the limits of one file."""
        ticks = itertools.count(1)
        return starlark.EvalOptions(
            check_cancelled=lambda: next(ticks) > self._max_ticks,
            max_callstack_size=CALL_DEPTH + PRELUDE_DEPTH,
        )

    def _frozen_prelude(self) -> Any:
        module = starlark.Module()
        module["env"] = self.env
        for name, function in self._functions().items():
            module.add_callable(name, function)
        extensions = (starlark.LibraryExtension.StructType, starlark.LibraryExtension.CallStack)
        text = "\n".join((_PRELUDE.read_text(encoding="utf-8"), *_declarations()))
        starlark.eval(module, parse_starlark(_PRELUDE.name, text), _globals(*extensions))
        return module.freeze()

    def _functions(self) -> dict[str, Callable[..., Any]]:
        return {
            "_record": self._record,
            "_export": self._export,
            "_foreign": lambda name: starlark.OpaquePythonObject(Foreign(name)),
            "_refuse_key": self._refuse_key,
            "_refuse_call": self._refuse_call,
            "_utility": self._utility,
            "_suite_file": self._suite_file,
            "_print": self._print,
        }

    def _record(
        self, call: str, args: list[Any], kwargs: Mapping[str, Any], stack: str
    ) -> dict[str, object]:
        if self.modules.is_loading:
            message = f"{call}: a module may declare nodes in its functions only, not when it loads"
            self._refuse(TopologyProblem("eval_error", message), stack, call)
        index = len(self.nodes)
        if index >= self.rules["maxNodes"]:
            message = f"more than {self.rules['maxNodes']} nodes in one suite"
            self._refuse(TopologyProblem("too_many_nodes", message), stack, call)
        try:
            node = read_call(call, args, kwargs, self.rules)
        except TopologyProblem as problem:
            node = self._stand_in(problem, stack, call, args, kwargs)
        node["position"] = self.source.position_of(call, stack)
        self.nodes.append(node)
        late = self.names[index] if index < len(self.names) else _placeholder(index)
        name = node.get("name") or late
        return {
            "handle": starlark.OpaquePythonObject(Handle(index, node["kind"], name)),
            "name": name,
            "kind": node["kind"],
            "variant": node["variant"],
            "image": node.get("image", ""),
            "env": node.get("env", {}),
            "ports": node.get("ports", []),
        }

    def _stand_in(
        self,
        problem: TopologyProblem,
        stack: str,
        call: str,
        args: list[Any],
        kwargs: Mapping[str, Any],
    ) -> RecordedNode:
        """Record what is wrong with a call, and return a node with its name, to find more."""
        names = {word: kwargs[word] for word in ("name", "id", "name_or_id") if word in kwargs}
        try:
            node = read_call(call, args[:1], names, self.rules)
        except TopologyProblem:
            self._refuse(problem, stack, call)
        self._note(problem, stack, call)
        return node

    def _export(self, handle: Handle, wanted: object, stack: str) -> None:
        node = self.nodes[handle.index]
        if not node_kinds[handle.kind].keyword("exports"):
            detail = f"export: a {handle.kind} node has no artifacts"
            problem = TopologyProblem("unknown_keyword", detail)
            self._refuse(problem, stack, ".export")
        try:
            node.setdefault("artifactExports", []).append(export(wanted, "export"))
        except TopologyProblem as problem:
            self._note(problem, stack, ".export")

    def _utility(self, name: str, value: object, stack: str) -> str:
        try:
            return FUNCTIONS[name](value)
        except TopologyProblem as problem:
            self._refuse(problem, stack, f"utils.{name}")

    def _suite_file(self, where: str, folder: str, path: str, stack: str) -> str:
        try:
            return named_file(path, where, folder, self.rules["files"])
        except TopologyProblem as problem:
            self._refuse(problem, stack)

    def _refuse_key(self, kind: str, stack: str) -> NoReturn:
        self._refuse(
            TopologyProblem("wrong_type", f"a dict key must be a string, not {kind}"), stack
        )

    def _refuse_call(self, name: str, stack: str) -> NoReturn:
        message = f"unknown call {name}(); {dict(hints())[name]}"
        self._refuse(TopologyProblem("eval_error", message), stack, name)

    def _refuse(self, problem: TopologyProblem, stack: str, call: str = "") -> NoReturn:
        """Record the problem with its position, and stop the evaluation with an error."""
        placed = self._note(problem, stack, call)
        self._is_refused = True
        raise placed

    def _note(self, problem: TopologyProblem, stack: str, call: str) -> TopologyProblem:
        """Record the problem and return it with its position."""
        position = self.source.position_of(call, stack)
        if self._loading_label:  # a module that loads: no frame of the stack is in the suite
            position = self.source.position_of_label(self._loading_label)
        placed = problem.at(**position)
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append(placed)
        return placed

    def _print(self, text: str) -> None:
        for line in text.split("\n"):
            if len(self.printed) < MAX_PRINTED:
                self.printed.append(
                    line.encode()[:MAX_PRINTED_BYTES].decode(errors="ignore")  # whole characters
                )
            else:
                self.dropped_lines += 1

    def _printed_lines(self) -> list[str]:
        """Return at most MAX_PRINTED lines; the last one counts the dropped ones."""
        if not self.dropped_lines:
            return self.printed
        count = self.dropped_lines + 1
        return [*self.printed[:-1], f"print: {count} further lines were dropped"]

    def _load(self, label: str) -> Any:
        if label == _EPILOGUE_LABEL and self._epilogue:
            binder = starlark.Module()
            binder.add_callable(_BINDER, self._bind)
            return binder.freeze()
        if label == _PRELUDE_LABEL and not self.loads and not self.nodes:
            return self.prelude
        self._loading_label = label
        try:
            return self.modules.load(label, self._wanted.get(label, []))
        except TopologyProblem as problem:
            symbol = problem.symbol if isinstance(problem, UnknownSymbol) else ""
            position = self.source.position_of_label(label, symbol)
            placed = problem.at(**position)
            if not self._is_refused:
                self.problems.append(placed)
            self._is_refused = True
            raise placed from None
        finally:
            self._loading_label = ""

    def _names_of_prelude(self) -> str:
        names = ", ".join(f'"{name}"' for name in (*dict(hints()), *PREDECLARED))
        return f'load("{_PRELUDE_LABEL}", {names})\n'

    def _bind(self, name: str, handle: object) -> None:
        if isinstance(handle, Handle):
            self.bound[name] = handle.index

    def _find_bound_names(self, module: Any, globals_: Any, loader: Any) -> None:
        """Ask Starlark, name by name, which global holds which node, if a node has no name."""
        if all("name" in node for node in self.nodes):
            return
        self._epilogue = True
        starlark.eval(
            module,
            parse_starlark(_EPILOGUE_LABEL, f'load("{_EPILOGUE_LABEL}", "{_BINDER}")\n'),
            globals_,
            loader,
        )
        for name in self.source.assigned_names():
            question = f'{_BINDER}("{name}", getattr({name}, "_handle", None))\nNone\n'
            try:
                starlark.eval(module, parse_starlark(_EPILOGUE_LABEL, question), globals_, loader)
            except starlark.StarlarkError:
                continue  # a local name of a function, not a global


def _declarations() -> Iterator[str]:
    """Yield Starlark that declares the calls of every node kind, and refuses their other names."""
    for name in node_kinds:
        kind = node_kinds[name]
        functions = (*kind.every_function, *kind.unavailable)
        calls = ", ".join(f'{each} = _call("{name}.{each}")' for each in functions)
        yield f"{name} = struct({calls})"
        yield from (f'{other} = _hint("{other}")' for other in kind.other_names)
    yield "traf = traffic"  # stands where a suite says load.<variant>: `load` is a keyword


def _placeholder(index: int) -> str:
    """Return the id of a node without a name and a global; it counts from 1."""
    return f"node_{index + 1}"


def _globals(*extensions: Any) -> Any:
    return starlark.Globals.extended_by(list(extensions))
