"""The files that a job leaves: results in JUnit's form, always, and the artifacts."""

from __future__ import annotations

import shutil
from html import escape
from pathlib import Path

from partita_client.ci.job_log import JobLog
from partita_client.ci.plain_text import plain_text

_ERROR = """\
<?xml version="1.0" encoding="UTF-8"?>
<testsuites tests="1" errors="1"><testsuite name="partita" tests="1" errors="1">
<testcase name="run" classname="partita"><error message="{message}"/></testcase>
</testsuite></testsuites>
"""


def error_results(message: str) -> bytes:
    """Return results with one error: a CI system shows a job without any as one of no tests."""
    return _ERROR.format(message=escape(plain_text(message))).encode()


def write_results(output: JobLog, file: Path, content: bytes) -> None:
    """Write the results; that they cannot be written is said and ends nothing."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    except OSError as error:
        output.warn(f"{file} could not be written: {error.strerror or error}")


def remove_file(output: JobLog, file: Path) -> None:
    """Remove a file of an earlier job; devices and folders stay."""
    try:
        if file.is_file():
            file.unlink()
    except OSError as error:
        output.warn(f"{file} could not be removed: {error.strerror or error}")


def keep_file(output: JobLog, found: Path, file: Path) -> bool:
    """Copy a file to where the job wants it; return whether it is there."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(found, file)
    except OSError as error:
        output.warn(f"{file} could not be written: {error.strerror or error}")
        return False
    return True
