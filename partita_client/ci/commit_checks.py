"""What people see at the commit and its pull or merge request, where they asked for it."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass

from partita_client.ci.github_checks import open_github_checks
from partita_client.ci.gitlab_notes import open_gitlab_notes
from partita_client.ci.job import GITHUB, GITLAB, CiJob
from partita_client.ci.job_log import JobLog
from partita_client.ci.outcome import CheckState
from partita_client.ci.report_text import Run
from partita_client.errors import ClientError


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitChecks:
    """What cannot be written is a warning in the log; it changes no exit code."""

    job: CiJob
    output: JobLog
    check: str
    has_status: bool
    has_comment: bool

    def tell(self, state: CheckState, sentence: str, run: Run, page: str) -> None:
        """Tell the CI system, if that is wanted; `page` of the run is empty before there is one."""
        if not (self.has_status or self.has_comment):
            return
        try:
            self._tell(state, sentence, run, page)
        except ClientError as error:
            self.output.warn(f"no commit status and no comment: {error.detail}")
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            self.output.warn(f"no comment: the CI system answered in another shape ({error!r})")

    def _tell(self, state: CheckState, sentence: str, run: Run, page: str) -> None:
        if self.job.system == GITHUB:
            checks = open_github_checks(
                self.job,
                self.check,
                self.output,
                has_status=self.has_status,
                has_comment=self.has_comment,
            )
            with closing(checks.api):
                checks.tell(state, sentence, run, page)
        elif self.job.system == GITLAB:
            if self.has_comment:
                notes = open_gitlab_notes(self.job, self.check, self.output)
                with closing(notes.api):
                    notes.tell(state, sentence, run, page)
            if self.has_status and state is not CheckState.PENDING:
                self.output.line("In GitLab, the job is the status of its commit: none is written.")
        elif state is not CheckState.PENDING:
            self.output.warn("--commit-status and --comment are for GitHub Actions and GitLab")
