"""The comment or note that a check keeps up to date, found among those of others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from partita_client.ci.job_log import JobLog
from partita_client.ci.report_text import comment_mark
from partita_client.ci.web_api import WebAnswer, WebApi

_PAGE: Final = 100
_PAGES_MAX: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class RemarkSearch:
    """Reads the remarks of a request, which has at most 1000.

    `is_own` says whether the job's own account wrote one: everybody can write the mark of a check.
    `request` and `remarks` are what the CI system calls them.
    """

    api: WebApi
    check: str
    output: JobLog
    is_own: Callable[[Any], bool]
    say_refused: Callable[[WebAnswer], None]
    request: str
    remarks: str

    def find(self, path: str) -> int | None:
        """Return the remark to edit, 0 where there is none, None where that is not known."""
        for page in range(1, _PAGES_MAX + 1):
            answer = self.api.ask("GET", f"{path}?per_page={_PAGE}&page={page}")
            if not answer.is_success:
                self.say_refused(answer)
                return None
            for remark in answer.document:
                if self.is_own(remark) and self._has_mark(remark):
                    return int(remark["id"])
            if len(answer.document) < _PAGE:
                return 0
        most = _PAGE * _PAGES_MAX
        self.output.warn(f"the {self.request} has more than {most} {self.remarks}: none written")
        return None

    def _has_mark(self, remark: Any) -> bool:
        return str(remark.get("body") or "").startswith(comment_mark(self.check))
