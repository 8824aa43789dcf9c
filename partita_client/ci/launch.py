"""From a CI job to an answer about its code: sign in, launch, wait, report."""

from __future__ import annotations

import re
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast
from urllib.parse import quote

from partita_client.ci.commit_checks import CommitChecks
from partita_client.ci.job import CiJob
from partita_client.ci.job_log import JobLog
from partita_client.ci.job_report import find_suite_file, report_run, set_output
from partita_client.ci.job_session import JobSession
from partita_client.ci.outcome import (
    CheckState,
    CiOutcome,
    outcome_of,
    outcome_of_error,
    unknown,
)
from partita_client.ci.plain_text import plain_line
from partita_client.ci.report_text import Run, check_name
from partita_client.ci.result_files import (
    error_results,
    keep_file,
    remove_file,
    write_results,
)
from partita_client.ci.web_api import require_https
from partita_client.client import ENDED, Client
from partita_client.errors import ApiProblem, BadConfiguration, ClientError, NotPartita
from partita_client.exit_codes import CiExitCode
from partita_client.patience import FirstContact, wait_for_answer
from partita_client.server_choice import ServerChoice

_WRONG_USE: Final = (400, 404, 422)
_DETAILS: Final = ("suite", "steps", "artifacts", "verdict")
_RUN_ID: Final = re.compile(r"[A-Za-z0-9-]{1,64}")
_DOWNLOAD_S: Final = 600.0
_FIRST_PAUSE_S: Final = 0.2
_LONGEST_PAUSE_S: Final = 3.0


class JobStopped(BaseException):
    """The CI system stops the job: a signal came."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CiRequest:
    """What the job was asked to launch and to leave; `body` goes with the launch.

    Empty texts and None mean the usual; `artifacts` is None where they are not wanted.
    """

    suite: str
    body: Mapping[str, Any]
    idempotency_key: str = ""
    junit: Path = Path("junit.xml")
    artifacts: Path | None = None
    suite_file: str = ""
    audience: str = ""
    timeout_s: float
    patience_s: float
    has_status: bool = False
    has_comment: bool = False


@dataclass(slots=True, kw_only=True)
class CiLaunch:
    """One call of `partita run launch --ci`; `choose` says which server is meant."""

    request: CiRequest
    job: CiJob
    output: JobLog
    choose: Callable[[], ServerChoice]
    _choice: ServerChoice | None = field(default=None, init=False)
    _contact: FirstContact = field(default_factory=FirstContact, init=False)
    _session: JobSession | None = field(default=None, init=False)
    _run_id: str = field(default="", init=False)
    _details: Run | None = field(default=None, init=False)
    _has_results: bool = field(default=False, init=False)
    _has_ended: bool = field(default=False, init=False)

    def execute(self) -> CiExitCode:
        """Run all of it and return how the job ends; raise nothing."""
        try:
            outcome = self._launch_and_wait()
        except JobStopped:
            outcome = unknown("the job was stopped")
        except ClientError as error:
            outcome = outcome_of_error(error)
        except BaseException:  # noqa: BLE001 - whatever it is, it says nothing of the code
            self.output.line(traceback.format_exc())
            outcome = unknown("the client ended too early, see above: the code was not judged")
        self._end(outcome)
        return outcome.code

    def _end(self, outcome: CiOutcome) -> None:
        """Say how it ended to all that want to know it, and end the session.

        A CI system kills a job seconds after the signal that stops it: the session ends before
        anything is told to GitHub or GitLab, which may be slow.
        """
        sentence = self.output.hide_secrets(outcome.sentence)
        try:
            if outcome.code in (CiExitCode.USAGE, CiExitCode.UNKNOWN):
                self.output.fail(sentence)
            if self._run_id and not self._has_ended:
                self.output.line(f"The run goes on: {self._page}. {self._way_back}")
            if not self._has_results:
                write_results(self.output, self.request.junit, error_results(sentence))
            if self._session is not None:
                self._session.end()
            self._tell(outcome.state, sentence)
        except BaseException as error:  # noqa: BLE001 - the end of the run is known: nothing changes it
            self.output.warn(f"the report is not complete: {error!r}")

    def _launch_and_wait(self) -> CiOutcome:
        request = self.request
        write_results(self.output, request.junit, error_results("the run has not ended yet"))
        if request.artifacts is not None:
            remove_file(self.output, request.artifacts)
        if not request.suite:
            raise BadConfiguration("no suite is named: the id of the suite to run")
        choice = self._choice = self.choose()
        require_https(choice.url, "the address of the server")
        self._session = JobSession(
            choice=choice,
            job=self.job,
            output=self.output,
            audience=request.audience,
            ask=self._ask,
            needed_s=request.timeout_s,
        )
        with self._session.open_client() as client:
            self._launch(client)
            run = self._wait(client)
            self._fetch(client)
        set_output(self.output, "status", run["status"])
        file = request.suite_file or find_suite_file(request.suite)
        report_run(self.output, self._details or run, page=self._page, suite_file=file)
        return outcome_of(run, self._details)

    # the run

    def _launch(self, client: Client) -> None:
        request, body = self.request, self.request.body
        key = request.idempotency_key or self.job.idempotency_key(
            request.suite, body.get("profile", ""), body.get("backend", "")
        )
        try:
            run = self._ask(
                lambda: _require_run(client.launch(request.suite, idempotency_key=key, **body)),
                f"refuses the launch of {request.suite}",
            )
        except ApiProblem as error:  # there is no such suite, profile or backend
            if error.status not in _WRONG_USE:
                raise
            raise BadConfiguration(error.detail, advice=error.advice) from None
        self._run_id = run["id"]
        self.output.line(f"Run {self._run_id} of {plain_line(request.suite)}: {self._page}")
        set_output(self.output, "run-id", self._run_id)
        set_output(self.output, "run-url", self._page)
        self._tell(CheckState.PENDING, "the run was launched")

    def _wait(self, client: Client) -> Run:
        """Return the run once it has ended, over absences of the server."""
        ends_at = time.monotonic() + self.request.timeout_s
        said, pause_s = "", _FIRST_PAUSE_S
        while True:
            run: Run = self._ask(
                lambda: _require_run(client.run(self._run_id, parts=())),
                "does not show the run",
                until=min(ends_at, self._patient_until),
            )
            sentence = f"{run['status']}: {plain_line(run['sentence'])}"
            if sentence != said:
                self.output.line(sentence)
                said = sentence
            if run["status"] in ENDED:
                self._has_ended = True
                return run
            if time.monotonic() >= ends_at:
                raise ClientError(f"the run has not ended within {self.request.timeout_s:g} s")
            time.sleep(min(pause_s, max(0.0, ends_at - time.monotonic())))
            pause_s = min(_LONGEST_PAUSE_S, pause_s * 1.5)

    @property
    def _way_back(self) -> str:
        is_found = bool(self.job.name or self.request.idempotency_key)
        if is_found and self._session is not None and self._session.can_open_again:
            return "The same call in this job attaches to it again."
        run_id = self._run_id
        return f"Look again: partita run wait {run_id}, or partita run watch {run_id}"

    @property
    def _page(self) -> str:
        choice = cast("ServerChoice", self._choice)
        return f"{choice.pages_url or choice.url}/executions/{quote(self._run_id, safe='')}"

    @property
    def _patient_until(self) -> float:
        return time.monotonic() + self.request.patience_s

    def _ask(self, ask: Callable[[], Any], what: str, *, until: float | None = None) -> Any:
        """Return an answer, over absences; raise an error that begins with who did what."""
        url = cast("ServerChoice", self._choice).url
        try:
            return wait_for_answer(
                ask,
                until=self._patient_until if until is None else until,
                on_away=lambda why: self.output.line(f"Waiting for {url}: {plain_line(why)}"),
                contact=self._contact,
            )
        except ApiProblem as error:
            error.detail = f"{url} {what} ({error.status}): {error.detail}"
            raise

    # the report

    def _fetch(self, client: Client) -> None:
        """Fetch results, details and artifacts; what cannot be had is said and ends nothing."""
        until = self._patient_until  # of all three
        request, run_id = self.request, self._run_id
        results = self._try(lambda: _require_results(client.junit(run_id)), "results", until)
        content = results if isinstance(results, bytes) else error_results(results)
        write_results(self.output, request.junit, content)
        self._has_results = True
        details = self._try(
            lambda: _require_run(client.run(run_id, parts=_DETAILS)), "details", until
        )
        if not isinstance(details, str):
            self._details = details
        if request.artifacts is not None and self._details and self._details.get("artifacts"):
            self._fetch_artifacts(client, request.artifacts, until)

    def _fetch_artifacts(self, client: Client, target: Path, until: float) -> None:
        try:
            with tempfile.TemporaryDirectory(prefix="partita-") as folder:
                file = Path(folder, "artifacts.zip")
                found = self._try(
                    lambda: client.download_archive(self._run_id, file, timeout_s=_DOWNLOAD_S),
                    "artifacts",
                    until,
                )
                if not isinstance(found, str) and keep_file(self.output, file, target):
                    self.output.line(f"Artifacts: {target}")
        except OSError as error:  # of the folder
            self.output.warn(f"{target} could not be written: {error.strerror or error}")

    def _try(self, ask: Callable[[], Any], what: str, until: float) -> Any:
        """Return an answer, or a sentence that says why there is none."""
        try:
            return self._ask(ask, f"does not hand out the {what}", until=until)
        except ClientError as error:
            sentence = f"The {what} could not be fetched: {plain_line(error.detail)}"
            self.output.line(sentence)
            return sentence

    def _tell(self, state: CheckState, sentence: str) -> None:
        """Tell those that look at the commit or its pull request."""
        request, body = self.request, self.request.body
        checks = CommitChecks(
            job=self.job,
            output=self.output,
            check=check_name(request.suite, body.get("profile", ""), body.get("backend", "")),
            has_status=request.has_status,
            has_comment=request.has_comment,
        )
        checks.tell(state, sentence, self._details or {}, self._page if self._run_id else "")


def _require_run(document: Any) -> Any:
    """Return a run; raise NotPartita for what is none, such as the page of a proxy."""
    if not isinstance(document, dict):
        raise NotPartita("the answer is not a run")
    texts = [document.get(name) for name in ("id", "status", "sentence")]
    if not all(isinstance(each, str) for each in texts) or not _RUN_ID.fullmatch(str(texts[0])):
        raise NotPartita("the answer is not a run")
    return document


def _require_results(content: bytes) -> bytes:
    """Return results in JUnit's form; raise NotPartita for anything else."""
    if b"<testsuite" not in content[:4096]:
        raise NotPartita("the answer has no test results")
    return content
