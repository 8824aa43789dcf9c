"""Why a destination does not hold the head of its ref yet, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sync_stack.core.tasks import State

STALE: Final = "stale"
UNREAD_PREFIX: Final = "git_"  # of errors with which a repository cannot be read
UNPARSED: Final = frozenset(  # errors with which the head of a ref cannot be parsed
    {"parse_error", "unsupported_expression", "unknown_format", "root_key_missing"}
)
_MEND: Final = "when it is mended: partita sync trigger --rule {rule} --repo {repo}"
_BY_CODE: Final = {
    "prune_guard": "if the keys may go: partita sync approve-prune {task}; if not, bring them back "
    "in Git",
    "git_auth": f"give the platform a token that may read {{repo}}; {_MEND}",
    "repository_not_found": f"check the name {{repo}} and that the token may read it; {_MEND}",
    "sink_auth": f"give the datasource {{datasource}} valid credentials; {_MEND}",
    "schema_invalid": "fix the values in Git and push: partita sync show {task} names them",
}
_BY_STATE: Final = {
    State.PENDING.lower(): "partita sync watch {task}; if nothing takes it, no worker runs",
    State.RUNNING.lower(): "partita sync watch {task}",
    State.RETRYING.lower(): "it is tried again by itself: partita sync watch {task}",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetLag:
    """What keeps the head of a ref from a destination.

    `state`: that of the task in lower case, or `stale`: Git cannot be read, or the head of the ref
    not be parsed. `since` is an RFC 3339 time. `commit` is empty while only the worker will know
    it; `code`, `detail` and `file` say what went wrong.
    """

    rule: str
    repo: str
    datasource: str
    state: str
    since: str
    task_id: str = ""
    commit: str = ""
    code: str = ""
    detail: str = ""
    file: str = ""
    line: int = 0

    @property
    def next_step(self) -> str:
        """Return the next step for people, a command where there is one."""
        if self.state in _BY_STATE:
            text = _BY_STATE[self.state]
        elif self.code in _BY_CODE:
            text = _BY_CODE[self.code]
        elif self.file:
            text = "fix {place} in Git and push"
        elif self.task_id:
            text = f"partita sync show {{task}}; {_MEND}"
        else:
            text = f"partita sync history --repo {{repo}}; {_MEND}"
        return text.format(
            task=self.task_id,
            rule=self.rule or "RULE",
            repo=self.repo,
            datasource=self.datasource,
            place=self.place,
        )

    @property
    def place(self) -> str:
        """The file that is at fault with its line, empty if there is none."""
        return f"{self.file}:{self.line}" if self.line else self.file

    def as_json(self) -> dict[str, object]:
        found: dict[str, object] = {
            "state": self.state,
            "since": self.since,
            "task_id": self.task_id,
            "commit": self.commit,
            "code": self.code,
            "detail": self.detail,
            "file": self.file,
            "line": self.line,
            "next": self.next_step,
        }
        return {name: value for name, value in found.items() if value}
