"""The log of a job as its CI system reads it.

Texts of a suite or server can look like commands to GitHub, Azure Pipelines or TeamCity, or like
sections to GitLab. None of them reaches the log in a form that any of them obeys, and no secret of
the job reaches it at all. A log that can no longer be written, as on a full disk, does not end the
job.
"""

from __future__ import annotations

import re
import secrets
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from partita_client import conf
from partita_client.ci.job import GITHUB, GITLAB, CiJob
from partita_client.ci.plain_text import plain_line, plain_text
from partita_client.standard_streams import write_line

_LIKE_A_COMMAND: Final = re.compile(r"^\s*::")
_MARK_OF_A_COMMAND: Final = re.compile(r"##(?=[\w.]*\[)")  # ##[…], ##vso[…], ##teamcity[…]
_LINE_CHARACTERS: Final = 10_000


class JobLog:
    """A log of a system without marks of its own; the others differ in what they override."""

    def __init__(self) -> None:
        self._secrets: list[str] = []

    def line(self, text: str) -> None:
        """Write lines that are not obeyed."""
        for each in self.hide_secrets(plain_text(text)).split("\n"):
            write_line(sys.stdout, _without_command(each[:_LINE_CHARACTERS]))

    def warn(self, text: str) -> None:
        write_line(sys.stderr, _without_command(f"partita: {self.hide_secrets(plain_line(text))}"))

    def fail(self, text: str) -> None:
        """Write why the job cannot succeed."""
        self.warn(text)

    def hide(self, secret: str) -> None:
        """Write the secret nowhere from now on.

        The CI system is not asked to mask it: that takes a line with the secret, which `| tee`
        would keep in a file.
        """
        if secret:
            self._secrets.append(secret)

    def hide_secrets(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return text

    def quote(self, title: str, lines: Iterable[str]) -> None:
        """Write what a run printed, below a title where there are such."""
        for each in lines:
            self.line(each)

    def annotate(self, file: str, line: int, title: str, text: str) -> None:
        """Mark a line of a file; nothing where there are no such marks."""


class GitHubLog(JobLog):
    """Workflow commands of GitHub Actions; all in one stream, in which order counts."""

    def warn(self, text: str) -> None:
        self._command("warning title=Partita", text)

    def fail(self, text: str) -> None:
        self._command("error title=Partita", text)

    def quote(self, title: str, lines: Iterable[str]) -> None:
        """Stop commands for what a run printed; only this process knows the word that ends it."""
        word = secrets.token_hex(16)
        write_line(sys.stdout, f"::stop-commands::{word}")
        try:
            super().quote(title, lines)
        finally:
            write_line(sys.stdout, f"::{word}::")

    def annotate(self, file: str, line: int, title: str, text: str) -> None:
        properties = f"file={_escape_property(file)},line={line},title={_escape_property(title)}"
        self._command(f"error {properties}", text)

    def _command(self, name: str, text: str) -> None:
        shown = self.hide_secrets(plain_text(text))
        write_line(sys.stdout, f"::{name}::{_escape(shown)}")


class GitLabLog(JobLog):
    """Sections of GitLab, which fold in its page of the job."""

    def quote(self, title: str, lines: Iterable[str]) -> None:
        name = f"partita_{secrets.token_hex(4)}"
        now = int(time.time())
        write_line(sys.stdout, f"\x1b[0Ksection_start:{now}:{name}\r\x1b[0K{plain_line(title)}")
        super().quote(title, lines)
        write_line(sys.stdout, f"\x1b[0Ksection_end:{now}:{name}\r\x1b[0K")


def open_log(job: CiJob) -> JobLog:
    """Return the log of the job's CI system."""
    logs: dict[str, type[JobLog]] = {GITHUB: GitHubLog, GITLAB: GitLabLog}
    return logs.get(job.system, JobLog)()


def append_for_github(variable: str, text: str) -> None:
    """Append to a file that GitHub names by a variable, if it does; raise OSError."""
    if file := conf.variable(variable):
        with Path(file).open("a", encoding="utf-8") as opened:
            opened.write(text)


def _without_command(line: str) -> str:
    shown = _MARK_OF_A_COMMAND.sub("## ", line)
    return f"| {shown}" if _LIKE_A_COMMAND.search(shown) else shown


def _escape(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _escape_property(text: str) -> str:
    return _escape(plain_text(text)).replace(":", "%3A").replace(",", "%2C")
