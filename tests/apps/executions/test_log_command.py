"""`run logs`: the lines of a run on the terminal, narrowed by a text or a pattern."""

from __future__ import annotations

import pytest

from tests.apps.executions.runs import Run, Worker, booted_run, node
from tests.support.commands import command_output

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def run(worker: Worker) -> Run:
    made = booted_run(node("load"), node("check"))
    worker.claim()
    worker.log("load", *(f"row {number} of 400" for number in range(389, 393)))
    worker.log("check", "Row 391 is (wrong)")
    return made


def logs(capsys: pytest.CaptureFixture[str], run: Run, *words: str) -> tuple[int, list[str], str]:
    """Return the exit code, the lines of stdout and stderr of `run logs`."""
    code, out, err = command_output(capsys, "run", "logs", run.id, *words)
    return code, out.splitlines(), err


@pytest.mark.parametrize(
    ("words", "texts"),
    [
        (["--regex", r"row 39\d of"], ["row 390 of 400", "row 391 of 400", "row 392 of 400"]),
        (["--search", "ROW 391"], ["row 391 of 400", "Row 391 is (wrong)"]),
        (["--search", "(wrong)"], ["Row 391 is (wrong)"]),
        (["--regex", "391", "--source", "load"], ["row 391 of 400"]),
        (["--search", r"39\d"], []),
    ],
)
def test_only_lines_that_match_are_printed(
    capsys: pytest.CaptureFixture[str], run: Run, words: list[str], texts: list[str]
):
    code, lines, _error = logs(capsys, run, *words)

    assert code == 0
    assert [line.partition("] ")[2] for line in lines] == texts


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (["--regex", "("], 1, "--regex is not a valid RE2 pattern: missing )"),
        (["--regex", "a" * 1001], 1, "at most 1000 characters"),
        (["--regex", "a", "--search", "a"], 2, "not allowed with"),
    ],
)
def test_a_pattern_that_cannot_be_used_is_refused(
    capsys: pytest.CaptureFixture[str], run: Run, words: list[str], code: int, sentence: str
):
    ended, lines, error = logs(capsys, run, *words)

    assert (ended, lines) == (code, [])
    assert sentence in error
