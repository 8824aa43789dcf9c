"""Problems with positions from the error texts of starlark-rust, in the child process."""

from __future__ import annotations

import re
from typing import Any, Final

from apps.suites.domain.calls import KIND_OF, NOT_AVAILABLE
from apps.suites.domain.problems import TopologyProblem

FILE: Final = "suite.star"
HINTS: Final = {
    "service": 'use service.run("name", image="…")',
    "task": 'use task.run("name", file="…")',
    "test": 'use test.run("name", file="…")',
    "traffic": "use traffic.<variant>(…)",
    "suite": 'use suite.run(ref="…")',
    "mock": "use mock.serve(…)",
    "log": 'use log.info("…")',
    "security": "run a scanner image with test.run",
    "container": 'use service.run("name", image="…")',
    "script": 'use task.run("name", file="…")',
    "scenario": 'use test.run("name", file="…")',
}
UNAVAILABLE_MODULES: Final = ("postgres", "kafka", "redis", "mongodb", "playwright")
_NAMESPACES: Final = "service|task|test|traffic|suite|mock|log|security"
_FRAME: Final = re.compile(r"^  \* suite\.star:(\d+), in ", re.MULTILINE)
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
    """The text of suite.star."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.lines = [line.rstrip("\r") for line in text.split("\n")]  # as starlark-rust counts

    def for_parser(self) -> str:
        """Return the text with `traffic.x(` for `load.x(` and a last expression that is no node."""
        text = self.text
        if "load." in text:
            text = _TOKEN.sub(lambda match: match[0] if match["skip"] else _TRAFFIC_NAME, text)
        return text + "\nNone\n"

    def line_text(self, line: int) -> str:
        return self.lines[line - 1] if 0 < line <= len(self.lines) else ""

    def position(self, line: int, column: int) -> dict[str, Any]:
        return {
            "file": FILE,
            "line": line,
            "column": column,
            "sourceLine": self.line_text(line)[:400],
        }

    def position_of(self, call: str, stack: str) -> dict[str, Any]:
        """Return the position of a call: the innermost stack frame in the suite's text."""
        frames = _FRAME.findall(_ERROR.split(stack, maxsplit=1)[0])
        line = int(frames[-1]) if frames else 1
        shown = self.line_text(line)
        names = (call, call.replace("traffic.", "load.", 1)) if call else ()
        found = max((shown.find(name) for name in names), default=-1)
        column = found if found >= 0 else len(shown) - len(shown.lstrip())
        return self.position(line, column + 1)

    def last_line(self) -> int:
        return max((n for n, line in enumerate(self.lines, 1) if line.strip()), default=1)

    def assigned_names(self) -> list[str]:
        """Return the names that assignments and loops set, each once, in order."""
        targets = [*_TARGETS.findall(self.text), *_LOOPS.findall(self.text)]
        words = [word for target in targets for word in re.findall(r"[A-Za-z_]\w*", target)]
        return list(dict.fromkeys(words))


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
    if arrows and arrows[-1][0] == FILE:
        return int(arrows[-1][1]), int(arrows[-1][2])
    position = source.position_of("", error)
    return position["line"], position["column"]


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
    if "has no attribute" in message and re.match(r"security\s*\.", at):
        return (
            "unsupported_node",
            "security nodes are not supported; run a scanner image with test.run",
        )
    missing = re.search(r"has no attribute `(\w+)`", message)
    namespace = re.match(rf"({_NAMESPACES}|load)\s*\.", at)
    if missing and namespace:
        return "eval_error", _unknown_call(namespace[1], missing[1])
    called = re.match(rf"({_NAMESPACES})\s*\(", at)
    if "`call()` not supported" in message and called:
        return "eval_error", f"{called[1]} is not callable; {HINTS[called[1]]}"
    return None


def _unknown_call(namespace: str, name: str) -> str:
    prefix = "traffic." if namespace == "load" else f"{namespace}."
    calls = [call for call in KIND_OF if call.startswith(prefix)]
    calls = calls or [call for call in NOT_AVAILABLE if call.startswith(prefix)]
    hint = f"did you mean {calls[0]}?" if len(calls) == 1 else f"known: {', '.join(calls)}"
    return f"unknown call {namespace}.{name}; {hint}"


def module_problem(label: str, module: str | None, source: SuiteSource) -> TopologyProblem:
    """Return the problem of a `load` of an unknown module, at the line that names it."""
    place = source.text.find(label)
    before = source.text[: max(place, 0)]
    line = before.count("\n") + 1
    shown = source.line_text(line)
    position = source.position(line, max(shown.find("load"), 0) + 1)
    if module is None:
        reason = 'a label has the form "@scope/module", such as "@partita/runtime"'
    elif module in UNAVAILABLE_MODULES:
        reason = f'the built-in module "{module}" is not available yet'
    else:
        reason = "modules of registries are not available yet; known: runtime"
    return TopologyProblem("module_not_found", f'load("{label}"): {reason}', **position)
