"""One note in the merge requests of a commit, by a GITLAB_TOKEN with the scope `api`.

The job is a status of its commit already, and its own CI_JOB_TOKEN may write no notes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from partita_client import conf
from partita_client.ci.job import CiJob
from partita_client.ci.job_log import JobLog
from partita_client.ci.outcome import CheckState
from partita_client.ci.own_remarks import RemarkSearch
from partita_client.ci.report_text import Run, comment_links, comment_text
from partita_client.ci.web_api import WebAnswer, WebApi
from partita_client.errors import BadConfiguration

_REQUESTS_MAX: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class GitLabNotes:
    """What GitLab refuses is a warning in the log; it changes no exit code."""

    job: CiJob
    check: str
    output: JobLog
    api: WebApi

    def tell(self, state: CheckState, sentence: str, run: Run, page: str) -> None:
        """Edit or write the note."""
        text = comment_text(
            check=self.check,
            state=state,
            sentence=sentence,
            run=run,
            links=comment_links(self.job.commit, page=page, job_page=self.job.page),
        )
        for request in list(self._merge_requests()):
            self._write_note(request, text)

    def _merge_requests(self) -> Iterator[int]:
        """Yield the open merge requests whose newest commit this is."""
        project = self._project
        answer = self.api.ask(
            "GET", f"{project}/repository/commits/{self.job.commit}/merge_requests?state=opened"
        )
        if not answer.is_success:
            self._say_refused(answer)
            return
        newest = [
            int(each["iid"])
            for each in answer.document
            if each["state"] == "opened" and each["sha"] == self.job.commit
        ]
        yield from newest[:_REQUESTS_MAX]

    @property
    def _project(self) -> str:
        return f"/projects/{quote(conf.variable('CI_PROJECT_ID'), safe='')}"

    def _write_note(self, request: int, text: str) -> None:
        notes = f"{self._project}/merge_requests/{request}/notes"
        found = self._find_note(notes)
        if found is None:
            return
        if found:
            answer = self.api.ask("PUT", f"{notes}/{found}", {"body": text})
        else:  # not repeated: it may have been written
            answer = self.api.ask("POST", notes, {"body": text}, repeats=False)
        if not answer.is_success:
            self._say_refused(answer)

    def _find_note(self, notes: str) -> int | None:
        """Return the note to edit, 0 where there is none, None where that is not known."""
        person = self.api.ask("GET", "/user")
        if not person.is_success:
            self._say_refused(person)
            return None
        search = RemarkSearch(
            api=self.api,
            check=self.check,
            output=self.output,
            is_own=lambda note: bool(note["author"]["id"] == person.document["id"]),
            say_refused=self._say_refused,
            request="merge request",
            remarks="notes",
        )
        return search.find(notes)

    def _say_refused(self, answer: WebAnswer) -> None:
        did = f"answers {answer.status}" if answer.status else "does not answer"
        self.output.warn(f"GitLab {did}: {answer.message} (GITLAB_TOKEN needs the scope api)")


def open_gitlab_notes(job: CiJob, check: str, output: JobLog) -> GitLabNotes:
    """Return the notes of a job; raise BadConfiguration where it may write none."""
    token = conf.variable("GITLAB_TOKEN")
    if not token:
        raise BadConfiguration("GITLAB_TOKEN is not set: an access token with the scope api")
    url = conf.variable("CI_API_V4_URL")
    return GitLabNotes(
        job=job, check=check, output=output, api=WebApi(url=url, headers={"PRIVATE-TOKEN": token})
    )
