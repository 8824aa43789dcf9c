"""`--jq`: by the program, by the module, and with neither."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from partita_client.command import json_filter
from partita_client.command.halves import StoreCommand
from partita_client.command.program import run_words
from tests.support.fake_partita import RUN, FakePartita, problem, summary

Type = Callable[..., tuple[int, str, str]]
needs_jq = pytest.mark.skipif(shutil.which("jq") is None, reason="needs the program jq")


@pytest.fixture
def type_in(capsys: pytest.CaptureFixture[str]) -> Type:
    def run(*words: str) -> tuple[int, str, str]:
        try:
            code = run_words(words)
        except SystemExit as ended:
            code = int(str(ended.code))
        assert not isinstance(code, StoreCommand), code
        said = capsys.readouterr()
        return int(code), said.out, said.err

    return run


class FakeProgram:
    """What the module returns for an expression: `.[KEY]` of each document, or a key of it."""

    def __init__(self, key: str) -> None:
        self._key = key
        self._found: list[Any] = []

    def input_text(self, text: str) -> FakeProgram:
        self._found = [json.loads(line)[self._key] for line in [text] if line]
        return self

    def all(self) -> list[Any]:
        if isinstance(self._found[0], str):
            raise ValueError("Cannot iterate over string")  # noqa: TRY004 - as the module does
        return [each for found in self._found for each in found]


def _compile(expression: str) -> FakeProgram:
    if expression.endswith("["):
        raise ValueError("jq: error: syntax error, unexpected end\njq: 1 compile error")
    return FakeProgram(expression.strip(".[]"))


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> None:
    """The module `jq`, as far as it is used; the program is not there."""
    made = ModuleType("jq")
    made.__spec__ = type("Spec", (), {"name": "jq"})()
    made.compile = _compile  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "jq", made)
    monkeypatch.setenv("PATH", "/nonexistent")


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch) -> None:
    """The program alone, also where the module is installed."""
    monkeypatch.setattr(json_filter, "_module", lambda: None)


@needs_jq
@pytest.mark.usefixtures("program")
@pytest.mark.parametrize(
    ("expression", "printed"),
    [
        (".executions[].id", f"{RUN}\n"),
        (".executions[0] | {id, status}", f'{{"id":"{RUN}","status":"Failed"}}\n'),
        (".executions | length", "1\n"),
        ('"grün"', "grün\n"),
        ('"two\\nlines"', "two\nlines\n"),
        ("-1", "-1\n"),
        ("empty", ""),
        ('import "/nosuch" as no; .', None),
    ],
)
def test_strings_are_raw_and_the_rest_is_json(
    signed_in: FakePartita, type_in: Type, expression: str, printed: str | None
):
    code, out, err = type_in("run", "list", "--jq", expression)

    assert (code, out) == ((0, printed) if printed is not None else (2, "")), err


@needs_jq
@pytest.mark.usefixtures("program")
@pytest.mark.parametrize(
    ("expression", "said"),
    [
        (".executions[", "syntax error"),
        (".executions | keys | .[0] | .x", "Cannot index number"),
        ("nosuch", "nosuch/0 is not defined"),
        ("", "needs an expression"),
    ],
)
def test_an_expression_that_fails_says_so_in_the_words_of_jq(
    signed_in: FakePartita, type_in: Type, expression: str, said: str
):
    code, out, err = type_in("run", "list", "--jq", expression)

    assert (code, out) == (2, "")
    assert said in err
    assert "next: " in err


@needs_jq
@pytest.mark.usefixtures("program")
def test_nothing_is_launched_whose_answer_cannot_be_printed(signed_in: FakePartita, type_in: Type):
    asked: list[str] = []

    def refuse(*_: Any) -> Any:
        asked.append("launch")
        return problem(500, "internal", "asked")

    signed_in.answers["POST /api/v1/executions"] = refuse

    assert type_in("run", "launch", "shop", "--jq", ".id[")[0] == 2
    assert asked == []
    type_in("run", "launch", "shop", "--jq", ".id")
    assert asked


@needs_jq
@pytest.mark.usefixtures("program")
def test_the_exit_code_of_the_verb_stays(signed_in: FakePartita, type_in: Type):
    code, out, _ = type_in("run", "show", RUN, "--exit-status", "--jq", ".id")

    assert (code, out) == (10, f"{RUN}\n")


@needs_jq
@pytest.mark.usefixtures("program")
def test_an_expression_without_an_end_is_stopped(
    signed_in: FakePartita, type_in: Type, monkeypatch
):
    monkeypatch.setattr(json_filter, "_PROGRAM_LIMIT_S", 0.3)

    code, out, err = type_in("run", "list", "--jq", "last(repeat(1))")

    assert (code, out) == (2, "")
    assert "has not ended within" in err


@pytest.mark.usefixtures("module")
def test_the_module_is_enough(signed_in: FakePartita, type_in: Type):
    signed_in.runs = [summary("run-00000000000a")]

    code, out, err = type_in("run", "list", "--jq", ".executions[]")

    assert code == 0, err
    assert json.loads(out)["id"] == "run-00000000000a"
    assert out.count("\n") == 1
    assert type_in("context", "show", "--jq", ".url[]")[2].startswith(
        "error: the expression of --jq fails: Cannot iterate over string\n"
    )
    code, _, err = type_in("run", "list", "--jq", ".executions[")
    assert code == 2
    assert "syntax error, unexpected end; jq: 1 compile error" in err


@pytest.mark.usefixtures("module")
def test_the_module_escapes_letters_that_stdout_lacks(
    signed_in: FakePartita, type_in: Type, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(json_filter, "has_all_letters", lambda: False)
    signed_in.runs = [summary("run-00000000000a") | {"author": "Zoë"}]

    _, out, err = type_in("run", "list", "--jq", ".executions[]")

    assert out.isascii(), err
    assert json.loads(out)["author"] == "Zoë"


@pytest.mark.usefixtures("program")
def test_without_jq_it_is_said_what_to_install(
    signed_in: FakePartita, type_in: Type, monkeypatch, tmp_path: Path
):
    monkeypatch.setenv("PATH", str(tmp_path))

    code, out, err = type_in("run", "list", "--jq", ".")

    assert (code, out) == (2, "")
    assert "pip install 'partita-client[jq]'" in err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("run", "list", "-o", "yaml"), "leave out -o yaml"),
        (("run", "logs", RUN, "--follow"), "leave out --follow"),
        (("run", "open", RUN), "unrecognized arguments: --jq"),
    ],
)
def test_what_is_no_document_is_not_filtered(
    signed_in: FakePartita, type_in: Type, words: tuple[str, ...], said: str
):
    code, out, err = type_in(*words, "--jq", ".")

    assert (code, out) == (2, "")
    assert said in err


@needs_jq
@pytest.mark.usefixtures("program")
def test_a_terminal_is_not_driven_by_what_a_server_says(
    signed_in: FakePartita, type_in: Type, monkeypatch
):
    expression = '"\\u001b[2Jred\\u0007\\nnext"'
    assert type_in("run", "list", "--jq", expression)[1] == "\x1b[2Jred\a\nnext\n"

    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)

    assert type_in("run", "list", "--jq", expression)[1] == "?[2Jred?\nnext\n"
