"""Problems with positions from the error texts of starlark-rust, in the child process."""

from __future__ import annotations

import re
from typing import Any, Final

import starlark

from apps.suites.calls import node_kinds
from apps.suites.domain.problems import Position, TopologyProblem

FILE: Final = "suite.star"
_ARROW: Final = re.compile(r"^ *--> (.+?):(\d+):(\d+)$", re.MULTILINE)
_ERROR: Final = re.compile(r"^error: ", re.MULTILINE)
_EXPECTATIONS: Final = re.compile(r", expected one of .*\Z", re.DOTALL)
_UNFINISHED: Final = re.compile(r"unexpected (new line|end of file)")
_TOKEN: Final = re.compile(
    r"""(?P<skip>\#[^\n]*|\"\"\"(?:\\.|[^\\])*?\"\"\"|'''(?:\\.|[^\\])*?'''|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')"""
    r"|(?P<load>(?<![.\w])load(?=\s*\.))",
    re.DOTALL,
)
_TARGETS: Final = re.compile(
    r"(?:^|;)[ \t]*([A-Za-z_(\[][\w \t,()\[\]*]*?)[ \t]*(?::[^=\n]*)?=(?!=)", re.MULTILINE
)
_LOOPS: Final = re.compile(r"^[ \t]*for[ \t]+([\w \t,()]+?)[ \t]+in\b", re.MULTILINE)
_TRAFFIC_NAME: Final = "traf"  # as long as `load`, so that columns stay


class SuiteSource:
    """The text of suite.star, or of a file of a module: `name` is what the evaluator calls it."""

    def __init__(self, text: str, *, name: str = FILE) -> None:
        self.text = text
        self.name = name
        self._frame = re.compile(rf"^  \* {re.escape(name)}:(\d+), in ", re.MULTILINE)
        self.lines = [line.rstrip("\r") for line in text.split("\n")]  # as starlark-rust counts

    def for_parser(self) -> str:
        """Return the text with `traffic.x(` for `load.x(` and `None` as its last expression."""
        text = self.text
        if "load." in text:
            text = _TOKEN.sub(lambda match: match[0] if match["skip"] else _TRAFFIC_NAME, text)
        return text + "\nNone\n"

    def line_text(self, line: int) -> str:
        return self.lines[line - 1] if 0 < line <= len(self.lines) else ""

    def position(self, line: int, column: int) -> Position:
        return {
            "file": self.name,
            "line": line,
            "column": column,
            "sourceLine": self.line_text(line)[:400],
        }

    def position_of(self, call: str, stack: str) -> Position:
        """Return the position of a call: the innermost stack frame in the suite's text."""
        return self.position(*self.line_and_column(call, stack))

    def line_and_column(self, call: str, stack: str) -> tuple[int, int]:
        """Return line and column of a call."""
        frames = self._frame.findall(_ERROR.split(stack, maxsplit=1)[0])
        line = int(frames[-1]) if frames else 1
        shown = self.line_text(line)
        names = (call, call.replace("traffic.", "load.", 1)) if call else ()
        found = max((shown.find(name) for name in names), default=-1)
        column = found if found >= 0 else len(shown) - len(shown.lstrip())
        return line, column + 1

    def position_of_label(self, label: str, symbol: str = "") -> Position:
        """Return the position of the `load` that names a label, or of a symbol after the label."""
        place = self._place_of(label, 0)
        if symbol and self._place_of(symbol, place) > 0:
            place = self._place_of(symbol, place)
        line_start = self.text.rfind("\n", 0, place) + 1
        line = self.text.count("\n", 0, place) + 1
        column = place - line_start if symbol else max(self.line_text(line).find("load"), 0)
        return self.position(line, column + 1)

    def _place_of(self, text: str, start: int) -> int:
        """Return where a string literal is, or 0."""
        return max(self.text.find(f'"{text}"', start), self.text.find(f"'{text}'", start), 0)

    def last_line(self) -> int:
        return max((n for n, line in enumerate(self.lines, 1) if line.strip()), default=1)

    def assigned_names(self) -> list[str]:
        """Return the names that assignments and loops set, each once, in order."""
        targets = [*_TARGETS.findall(self.text), *_LOOPS.findall(self.text)]
        words = [word for target in targets for word in re.findall(r"[A-Za-z_]\w*", target)]
        return list(dict.fromkeys(words))


def parse_starlark(name: str, text: str) -> Any:
    """Parse Starlark with all that a suite may use; raise starlark.StarlarkError."""
    dialect = starlark.Dialect.extended()
    dialect.enable_f_strings = True
    dialect.enable_top_level_stmt = True
    return starlark.parse(name, text, dialect)


def problem_of(error: str, source: SuiteSource) -> TopologyProblem:
    """Return the problem for an error text of starlark-rust."""
    text = _ERROR.split(error, maxsplit=1)[-1]
    arrows = list(_ARROW.finditer(text))
    message = (text[: arrows[-1].start()] if arrows else text).strip()
    line, column = _place(error, source)
    if message.startswith("Parse error: "):
        return _syntax_problem(message, line, column, source)
    position = source.position(line, column)
    code, sentence = _kind(message, source.line_text(line)[column - 1 :])
    return TopologyProblem(code, sentence, **position)


def _place(error: str, source: SuiteSource) -> tuple[int, int]:
    """Return the place of the arrow if it is in the suite, else of the innermost frame there."""
    arrows = _ARROW.findall(error)  # the last counts: a fail("… -->") comes before it
    if arrows and arrows[-1][0] == source.name:
        return int(arrows[-1][1]), int(arrows[-1][2])
    return source.line_and_column("", error)


def _syntax_problem(message: str, line: int, column: int, source: SuiteSource) -> TopologyProblem:
    sentence = _EXPECTATIONS.sub("", message.removeprefix("Parse error: "))
    at_the_end = line > source.last_line()  # where the closing expression is appended
    if at_the_end or (_UNFINISHED.search(sentence) and (line, column) == (1, 1)):
        line = source.last_line()
        column = len(source.line_text(line)) or 1
        sentence = "the text ends inside a statement; is a bracket still open?"
    return TopologyProblem("syntax_error", sentence, **source.position(line, column))


def _kind(message: str, at: str) -> tuple[str, str]:
    if message.startswith("fail: "):
        return "fail_called", message.removeprefix("fail: ")
    if message == "Evaluation cancelled":
        return "limit_exceeded", "the evaluation takes too many instructions"
    if "call stack overflow" in message:
        return "limit_exceeded", "calls are nested more than 64 deep"
    if message.startswith("Module has no symbol"):
        return "symbol_not_found", message
    return _namespace_misuse(message, at) or ("eval_error", message)


def _namespace_misuse(message: str, at: str) -> tuple[str, str] | None:
    namespace = re.match(r"(\w+)\s*([.(])", at)
    if namespace is None:
        return None
    written, access = namespace.groups()
    name = "traffic" if written == "load" else written
    if name not in node_kinds:
        return None
    if access == "." and "has no attribute" in message:
        return _unknown_call(name, written, message)
    if access == "(" and "`call()` not supported" in message and written != "load":
        return "eval_error", f"{name} is not callable; {node_kinds[name].hint}"
    return None


def _unknown_call(name: str, written: str, message: str) -> tuple[str, str] | None:
    kind = node_kinds[name]
    known = kind.every_function or kind.unavailable
    if not known:
        return "unsupported_node", f"{name} nodes are not supported; {kind.hint}"
    missing = re.search(r"has no attribute `(\w+)`", message)
    if missing is None:
        return None
    calls = [f"{name}.{each}" for each in known]
    hint = f"did you mean {calls[0]}?" if len(calls) == 1 else f"known: {', '.join(calls)}"
    return "eval_error", f"unknown call {written}.{missing[1]}; {hint}"
