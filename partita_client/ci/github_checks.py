"""A commit status, and one comment in the pull request, by the job's own GITHUB_TOKEN."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from partita_client import conf
from partita_client.ci.job import CiJob, event_member
from partita_client.ci.job_log import JobLog
from partita_client.ci.outcome import CheckState
from partita_client.ci.own_remarks import RemarkSearch
from partita_client.ci.plain_text import cut_text, plain_line
from partita_client.ci.report_text import Run, comment_links, comment_text
from partita_client.ci.web_api import WebAnswer, WebApi
from partita_client.errors import BadConfiguration

_DESCRIPTION_CHARACTERS: Final = 140
_PULLS_MAX: Final = 5
_WITHOUT_PERSON: Final = (401, 403)  # answers of GET /user
_STATUSES: Final = "statuses: write"
_PULL_REQUESTS: Final = "pull-requests: write"


@dataclass(frozen=True, slots=True, kw_only=True)
class GitHubChecks:
    """What GitHub refuses is a warning in the log; it changes no exit code."""

    job: CiJob
    check: str
    output: JobLog
    api: WebApi
    has_status: bool
    has_comment: bool

    def tell(self, state: CheckState, sentence: str, run: Run, page: str) -> None:
        """Write the status, and edit or write the comment."""
        if self.has_status:
            self._write_status(state, sentence, page or self.job.page)
        if self.has_comment:
            text = comment_text(
                check=self.check,
                state=state,
                sentence=sentence,
                run=run,
                links=comment_links(self.commit, page=page, job_page=self.job.page),
            )
            for pull in list(self._pulls()):
                self._write_comment(pull, text)

    @property
    def commit(self) -> str:
        """The commit that people look at: of a pull request the newest, not the merge."""
        heads = (("pull_request", "head", "sha"), ("workflow_run", "head_sha"))
        found = (event_member(self.job.event, *names) for names in heads)
        return next(filter(None, found), self.job.commit)

    def _write_status(self, state: CheckState, sentence: str, page: str) -> None:
        body = {
            "state": state.value,
            "target_url": page,
            "context": self.check,
            "description": cut_text(plain_line(sentence), _DESCRIPTION_CHARACTERS),
        }
        answer = self.api.ask("POST", f"/statuses/{self.commit}", body)
        if not answer.is_success:
            self._say_refused(answer, _STATUSES)

    def _pulls(self) -> Iterator[int]:
        """Yield the open pull requests whose newest commit this is: an older run edits nothing."""
        number = event_member(self.job.event, "pull_request", "number")
        path = f"/pulls/{number}" if number else f"/commits/{self.commit}/pulls"
        answer = self.api.ask("GET", path)
        if not answer.is_success:
            self._say_refused(answer, _PULL_REQUESTS)
            return
        found = answer.document if isinstance(answer.document, list) else [answer.document]
        newest = [
            int(each["number"])
            for each in found
            if each["state"] == "open" and each["head"]["sha"] == self.commit
        ]
        yield from newest[:_PULLS_MAX]

    def _write_comment(self, pull: int, text: str) -> None:
        found = self._find_comment(pull)
        if found is None:
            return
        if found:
            answer = self.api.ask("PATCH", f"/issues/comments/{found}", {"body": text})
        else:  # not repeated: it may have been written
            path = f"/issues/{pull}/comments"
            answer = self.api.ask("POST", path, {"body": text}, repeats=False)
        if not answer.is_success:
            self._say_refused(answer, _PULL_REQUESTS)

    def _find_comment(self, pull: int) -> int | None:
        """Return the comment to edit, 0 where there is none, None where that is not known."""
        own_name = self._own_name()
        if own_name is None:
            return None
        search = RemarkSearch(
            api=self.api,
            check=self.check,
            output=self.output,
            is_own=lambda comment: _is_own(comment, own_name),
            say_refused=lambda answer: self._say_refused(answer, _PULL_REQUESTS),
            request="pull request",
            remarks="comments",
        )
        return search.find(f"/issues/{pull}/comments")

    def _own_name(self) -> str | None:
        """Return the name of the token's person, empty for a token of the job, which has none.

        None where that is not known.
        """
        api = WebApi(url=_api_url(), headers=self.api.headers)
        answer = api.ask("GET", "/user")
        api.close()
        if answer.is_success:
            return str(answer.document["login"])
        if answer.status in _WITHOUT_PERSON:
            return ""
        self._say_refused(answer, _PULL_REQUESTS)
        return None

    def _say_refused(self, answer: WebAnswer, permission: str) -> None:
        did = f"answers {answer.status}" if answer.status else "does not answer"
        needs = f"needs 'permissions: {{{permission}}}'"
        self.output.warn(f"GitHub {did}: {answer.message} ({needs})")


def _is_own(comment: Any, own_name: str) -> bool:
    user = comment["user"] or {}
    return bool(user["login"] == own_name if own_name else user["type"] == "Bot")


def _api_url() -> str:
    return conf.variable("GITHUB_API_URL") or "https://api.github.com"


def open_github_checks(
    job: CiJob, check: str, output: JobLog, *, has_status: bool, has_comment: bool
) -> GitHubChecks:
    """Return the checks of a job; raise BadConfiguration where it may write none."""
    token = conf.variable("GITHUB_TOKEN")
    if not token:
        raise BadConfiguration("GITHUB_TOKEN is not set")
    headers = {
        "Authorization": f"Bearer {token}",
        "Accept": "application/vnd.github+json",
    }
    url = f"{_api_url()}/repos/{conf.variable('GITHUB_REPOSITORY')}"
    return GitHubChecks(
        job=job,
        check=check,
        output=output,
        api=WebApi(url=url, headers=headers),
        has_status=has_status,
        has_comment=has_comment,
    )
