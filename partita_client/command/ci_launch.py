"""`run launch --ci`: what the options of a CI job mean, and its signals."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from partita_client import conf
from partita_client.ci.job import CiJob, read_job
from partita_client.ci.job_log import open_log
from partita_client.ci.launch import CiLaunch, CiRequest, JobStopped
from partita_client.command.ci_options import ARTIFACTS, JUNIT
from partita_client.command.parser import CommandSession
from partita_client.command.run_launches import launch_body, require_group
from partita_client.errors import BadConfiguration
from partita_client.exit_codes import CiExitCode
from partita_client.project import find_project
from partita_client.server_choice import ServerChoice

_SIGNALS: Final = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)
_NAMES: Final = ("PARTITA_URL", "PARTITA_CONTEXT")
_TIMEOUT_S: Final = 3600.0
_PATIENCE_S: Final = 300.0


def launch_in_ci(session: CommandSession) -> int:
    """Launch, wait and report as a CI job; return 0 to 3, whatever happens."""
    job = read_job()
    launch = CiLaunch(
        request=_request_of(session.options, job),
        job=job,
        output=open_log(job),
        choose=lambda: _choose(session),
    )
    try:
        with stop_at_signals():
            return launch.execute()
    except JobStopped:  # at its very end
        return CiExitCode.UNKNOWN


def _choose(session: CommandSession) -> ServerChoice:
    """Return the server that is meant; raise ClientError, also for options that do not fit."""
    require_group(session.options)
    if session.options.watch:
        raise BadConfiguration("--ci waits without the log: leave out --watch")
    if session.form != "text":
        raise BadConfiguration("--ci prints what its CI system reads: leave out -o")
    _require_named_server(session.options)
    return session.choice


def _require_named_server(options: Any) -> None:
    """Refuse a server that nobody named for this job: its token may be worth something there.

    That of partita.toml is the choice of whoever may change a file; the current context and an `up`
    of this machine are those of a person.
    """
    named = (options.server, options.context_name, *map(conf.variable, _NAMES))
    if not any(named):
        project = find_project()
        url = (project and project.server) or "https://partita.example"
        raise BadConfiguration(
            "no server is named for this CI job", advice=f"set PARTITA_URL={url}, or --server URL"
        )


def _request_of(options: Any, job: CiJob) -> CiRequest:
    artifacts = ARTIFACTS if options.artifacts is None else options.artifacts
    return CiRequest(
        suite=options.suite.strip(),
        body=_body_of(options, job),
        idempotency_key=options.idempotency_key,
        junit=Path(options.junit or JUNIT),
        artifacts=Path(artifacts) if artifacts else None,
        suite_file=options.suite_file or "",
        audience=options.audience or "",
        timeout_s=options.timeout or _TIMEOUT_S,
        patience_s=options.patience or _PATIENCE_S,
        has_status=options.commit_status,
        has_comment=options.comment,
    )


def _body_of(options: Any, job: CiJob) -> dict[str, object]:
    """Return what goes with the launch; what no option says, the CI system does."""
    body = launch_body(options)
    said = {
        "author": job.author,
        "commit": job.commit,
        "branch": job.branch,
        "message": job.message,
    }
    body |= {name: body[name] or text for name, text in said.items()}
    return body | {"trigger": "CI" if body["trigger"] == "Manual" else body["trigger"]}


@contextmanager
def stop_at_signals() -> Iterator[None]:
    """Raise JobStopped in this block at the first signal that stops a job; ignore further ones."""

    def stop(_number: int, _frame: object) -> None:
        for each in _SIGNALS:
            signal.signal(each, signal.SIG_IGN)
        raise JobStopped

    former = {each: signal.getsignal(each) for each in _SIGNALS}
    for each, handler in former.items():
        if handler is not signal.SIG_IGN:  # as nohup wants it
            signal.signal(each, stop)
    try:
        yield
    finally:
        for each, handler in former.items():
            signal.signal(each, handler)
