"""`--jq`: the module `jq` where it is installed (`partita-client[jq]`), else the program `jq`."""

from __future__ import annotations

import importlib
import importlib.util
import json
import shutil
import subprocess
from typing import Any, Final

from partita_client.errors import BadConfiguration
from partita_client.standard_streams import has_all_letters

_PROGRAM_LIMIT_S: Final = 30
_MAX_EXPRESSION: Final = 16_384
_NOT_COMPILED: Final = 3  # what the program ends with
_INSTALL: Final = "pip install 'partita-client[jq]', or the program: apt-get install jq"


def check_filter(expression: str) -> None:
    """Raise BadConfiguration for an expression that is none, and where nothing can run it."""
    if not expression.strip() or len(expression) > _MAX_EXPRESSION or "\0" in expression:
        raise BadConfiguration(
            f"--jq needs an expression of at most {_MAX_EXPRESSION} characters",
            advice="such as --jq '.executions[].id'",
        )
    if (module := _module()) is not None:
        _compile(module, expression)
        return
    done = _run_program(["-n", expression], "")
    if done.returncode == _NOT_COMPILED:
        raise _refusal(done.stderr)


def filter_json(text: str, expression: str) -> str:
    """Return what jq makes of JSON documents, a line each: strings as they are, else JSON.

    Raise BadConfiguration with jq's own words for an expression that fails.
    """
    if (module := _module()) is not None:
        return _filter_by_module(module, text, expression)
    letters = [] if has_all_letters() else ["-a"]
    done = _run_program(["-r", "-c", *letters, expression], text)
    if done.returncode:
        raise _refusal(done.stderr)
    return done.stdout


def _filter_by_module(module: Any, text: str, expression: str) -> str:
    try:
        found = _compile(module, expression).input_text(text).all()
    except ValueError as error:
        raise _refusal(str(error)) from None
    return "".join(f"{_line_of(each)}\n" for each in found)


def _compile(module: Any, expression: str) -> Any:
    try:
        return module.compile(expression)
    except ValueError as error:
        raise _refusal(str(error)) from None


def _line_of(value: Any) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=not has_all_letters(), separators=(",", ":"))


def _run_program(words: list[str], text: str) -> subprocess.CompletedProcess[str]:
    """Run the program jq, the last word being its expression; raise BadConfiguration."""
    program = shutil.which("jq")
    if program is None:
        raise BadConfiguration("--jq needs jq, which is not installed here", advice=_INSTALL)
    *options, expression = words
    guarded = f" {expression}" if expression.startswith("-") else expression  # jq 1.6 has no `--`
    try:
        return subprocess.run(  # noqa: S603 - a word of its own, and no shell
            [program, *options, guarded],
            input=text, capture_output=True, encoding="utf-8", errors="replace", check=False,
            timeout=_PROGRAM_LIMIT_S,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise BadConfiguration(
            f"the expression of --jq has not ended within {_PROGRAM_LIMIT_S} s",
            advice="try it on the saved document: jq EXPRESSION document.json",
        ) from None


def _refusal(said: str) -> BadConfiguration:
    lines = [line.strip() for line in said.splitlines() if line.strip()] or ["jq gave no reason"]
    return BadConfiguration(
        f"the expression of --jq fails: {'; '.join(lines)[:2000]}",
        advice="-o json prints the whole document",
    )


def _module() -> Any:
    """Return the module `jq` where it is installed."""
    if importlib.util.find_spec("jq") is None:
        return None
    return importlib.import_module("jq")
