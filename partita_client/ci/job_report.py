"""What a job reports where its CI system shows it: marks, a summary, outputs and the log."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Final

from partita_client.ci.job_log import JobLog, append_for_github
from partita_client.ci.plain_text import plain_line
from partita_client.ci.report_text import Run, failure_text, marked_lines, summary_text

_FOLDERS_MAX: Final = 20_000
_SUITE_ID: Final = re.compile(r"\w[\w.-]*(?:/\w[\w.-]*)*")
_SKIPPED: Final = (".git", "node_modules", ".venv")


def report_run(output: JobLog, run: Run, *, page: str, suite_file: str) -> None:
    """Report what failed; a part that cannot be written is said and leaves out no other."""
    parts: dict[str, Callable[[], None]] = {
        "the annotations": lambda: _annotate(output, run, suite_file),
        "the summary": lambda: append_for_github("GITHUB_STEP_SUMMARY", summary_text(run, page)),
        "the failures": lambda: _quote_failures(output, run),
    }
    for name, write in parts.items():
        try:
            write()
        except OSError as error:
            output.warn(f"{name} could not be written: {error.strerror or error}")
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            output.warn(f"{name} could not be written: the run has another shape ({error!r})")


def _annotate(output: JobLog, run: Run, suite_file: str) -> None:
    for line, step, text in marked_lines(run):
        output.annotate(suite_file, line, step, text)


def _quote_failures(output: JobLog, run: Run) -> None:
    if lines := list(failure_text(run)):
        output.quote("What failed", lines)


def set_output(output: JobLog, name: str, value: str) -> None:
    """Set an output of the step, where GitHub runs it; that it cannot be written is said."""
    try:
        append_for_github("GITHUB_OUTPUT", f"{name}={plain_line(value)}\n")
    except OSError as error:
        output.warn(f"the output {name} could not be written: {error.strerror or error}")


def find_suite_file(suite: str) -> str:
    """Return the suite.star of a suite in the working folder, where it usually is if not found."""
    if not _SUITE_ID.fullmatch(suite):
        return "suite.star"
    for number, (folder, below, _files) in enumerate(os.walk(".")):
        below[:] = sorted(name for name in below if name not in _SKIPPED)
        file = Path(folder, suite, "suite.star")
        if file.is_file():
            return file.as_posix()
        if number >= _FOLDERS_MAX:
            break
    return f"suites/{suite}/suite.star"
