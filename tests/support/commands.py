"""Commands of `partita` in the process of the tests."""

from __future__ import annotations

import pytest
from django.core.management import execute_from_command_line


def run_command(*words: str) -> int:
    """Run `partita` with these words and return its exit code."""
    with pytest.raises(SystemExit) as ended:
        execute_from_command_line(["manage.py", *words])
    return int(ended.value.code or 0)


def command_output(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    """Return the exit code, stdout and stderr of `partita` with these words."""
    code = run_command(*words)
    said = capsys.readouterr()
    return code, said.out, said.err
