"""The script process: it evaluates dispatcher scripts, one request after the other.

It is run by path with `python -I`, imports starlark and the standard library alone, and sets its
limits before it reads a script. Frames go over the socket that is its stdin: four bytes of length,
then JSON. The first frame that it sends says that it is ready. A script that exceeds memory or
processor time ends the process, and the parent reports it. (reference: control-plane 18.3)
"""

from __future__ import annotations

import itertools
import json
import os
import re
import resource
import sys
import time
from collections import OrderedDict
from typing import Any, Final

import starlark

NICENESS: Final = 5  # requests come first
SCRIPTS: Final = 256  # compiled ones that are kept
CALL_DEPTH: Final = 64
TICK: Final = 1_000  # instructions between two looks at the limit
CPU_S: Final = 1  # of one call, for a process whose parent is gone
RETIRED_BYTES: Final = 64 * 2**20  # growth of its memory after which it ends, to be replaced
MAX_NAME: Final = 1_000
MAX_MESSAGE: Final = 300
_MAX_FRAME: Final = 4 * 2**20
_LABEL: Final = "dispatcherRules"
_EXPRESSION: Final = ("def dispatch(request, state):\n return (\n", "\n)\n")
_LINES_BEFORE: Final = 2  # those of the text above
_ENTRY: Final = "partita_dispatch"
_EPILOGUE: Final = f"""
def {_ENTRY}(request, state):
    name = dispatch(struct(**request), state)
    return name if name == None or type(name) == "string" else [type(name)]
None
"""
_ARROW: Final = re.compile(rf"^ *--> {_LABEL}:(\d+):(\d+)$", re.MULTILINE)
_ERROR: Final = re.compile(r"^error: ", re.MULTILINE)
_EXPECTATIONS: Final = re.compile(r", expected one of .*\Z", re.DOTALL)
_globals: Final = starlark.Globals.extended_by([starlark.LibraryExtension.StructType])
_dialect: Final = starlark.Dialect.standard()


class ScriptFailure(Exception):
    """A script that gives no name; the text says why."""

    def __init__(self, text: str, line: int = 0, column: int = 0) -> None:
        super().__init__(text)
        self.document = {"error": text[:MAX_MESSAGE], "line": line, "column": column}


class Scripts:
    """The compiled scripts of this process, the least recently used ones dropped."""

    def __init__(self, instructions: int) -> None:
        self._max_ticks = instructions // TICK
        self._compiled: OrderedDict[tuple[str, bool], Any] = OrderedDict()

    def answer(self, asked: dict[str, Any]) -> dict[str, Any]:
        source, defines = asked["source"], asked["defines"]
        before = _LINES_BEFORE if not defines else 0
        try:
            module = self._module(source, defines=defines)
            result = module.call_with(self._options(), _ENTRY, asked["request"], asked["state"])
        except starlark.StarlarkError as error:
            return failure_of(str(error), before, source.count("\n") + 1).document
        value = result.value
        if value is None or (isinstance(value, str) and len(value) <= MAX_NAME):
            return {"name": value}
        kind = "a long string" if isinstance(value, str) else value[0]
        return ScriptFailure(f"a script gives the name of an example or None, not {kind}").document

    def _module(self, source: str, *, defines: bool) -> Any:
        key = (source, defines)
        if key in self._compiled:
            self._compiled.move_to_end(key)
            return self._compiled[key]
        text = source if defines else source.join(_EXPRESSION)
        module = starlark.Module()
        parsed = starlark.parse(_LABEL, text + _EPILOGUE, _dialect)
        starlark.eval_with(self._options(), module, parsed, _globals)
        self._compiled[key] = frozen = module.freeze()
        if len(self._compiled) > SCRIPTS:
            self._compiled.popitem(last=False)
        return frozen

    def _options(self) -> Any:
        ticks = itertools.count(1)
        return starlark.EvalOptions(
            check_cancelled=lambda: next(ticks) > self._max_ticks, max_callstack_size=CALL_DEPTH
        )


def failure_of(error: str, before: int, lines: int) -> ScriptFailure:
    """Return what an error of starlark-rust says, with its position in the script's own text."""
    text = _ERROR.split(error, maxsplit=1)[-1]
    arrows = list(_ARROW.finditer(text))
    message = (text[: arrows[-1].start()] if arrows else text).strip()
    message = _EXPECTATIONS.sub("", message.removeprefix("Parse error: ")).removeprefix("fail: ")
    if message == "Evaluation cancelled":
        message = "the script takes too many instructions"
    line, column = map(int, arrows[-1].groups()) if arrows else (0, 0)
    line -= before
    return ScriptFailure(message, line, column) if 1 <= line <= lines else ScriptFailure(message)


def main() -> None:
    memory, instructions = map(int, sys.argv[1:])
    os.nice(NICENESS)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    scripts = Scripts(instructions)
    most = _peak_bytes() + RETIRED_BYTES
    _send({"ready": True})
    while (frame := _receive()) is not None:
        begun = time.process_time()
        resource.setrlimit(resource.RLIMIT_CPU, (int(begun) + 1 + CPU_S, resource.RLIM_INFINITY))
        try:
            answer = scripts.answer(json.loads(frame))
        except RecursionError:
            answer = ScriptFailure("the request is nested too deep for a script").document
        retires = _peak_bytes() > most
        cpu = time.process_time()
        _send({**answer, "took": cpu - begun, "cpu": cpu, "retires": retires})
        if retires:
            return


def _peak_bytes() -> int:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _send(document: dict[str, Any]) -> None:
    body = json.dumps(document).encode()
    frame = memoryview(len(body).to_bytes(4) + body)
    while frame:
        frame = frame[os.write(0, frame) :]


def _receive() -> bytes | None:
    """Return the next frame; None when the parent is gone."""
    length = _read(4)
    size = int.from_bytes(length)
    return _read(size) if len(length) == 4 and size <= _MAX_FRAME else None  # noqa: PLR2004


def _read(size: int) -> bytes:
    parts, left = [], size
    while left and (part := os.read(0, left)):
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


if __name__ == "__main__":
    main()
