"""Keep the environment of a run after its verdict, extend that, and end it.

Whether it is kept is decided with the verdict: its services are then detached instead of stopped.
The sweep alone ends what is over its time (reference: control-plane 11.9).
"""

from __future__ import annotations

import logging
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from apps.accounts.api import Principal, Role, email_of
from apps.executions import conf
from apps.executions.domain.events import OVERVIEW_NUDGE
from apps.executions.domain.kept_environments import (
    TOLD_BEFORE,
    KeepBody,
    NotKept,
    keep_nudge,
    tell_at,
)
from apps.executions.domain.repeats import REPEATS_NUDGE
from apps.executions.models import Execution
from apps.executions.selectors.kept_environments import (
    keep_body,
    kept_runs,
    not_kept_text,
)
from apps.executions.selectors.runs import get_execution
from apps.executions.services.run_aggregate import RunAggregate, load_run, save_runs
from apps.operations.api import MailUnavailable, RecipientRefused, mail_server, send_mail
from apps.streams.api import unit_of_work
from kernel import clock, durations

log = logging.getLogger("partita.executions")
_SUBJECT: Final = "The environment of {run} ends in {left}"
_TEXT: Final = """\
{suite} ({run}) is kept until {until} (UTC) and then removed.

Extend it or end it on its page: {page}
or on the command line:          partita run keep {run} --for 30m
"""


@unit_of_work
def extend(principal: Principal, run_id: str, keep_ms: int) -> KeepBody:
    """Keep an environment for `keep_ms` from now on, and return how it is kept.

    Raise ExecutionNotFound, Forbidden, NotKept.
    """
    run = _load_kept_run(principal, run_id)
    until = run.now + timedelta(milliseconds=keep_ms)
    run.change_run(keep_alive_ms=keep_ms, keep_alive_until=until, keep_told_at=None)
    run.nudge(keep_nudge(run_id))
    save_runs([run])
    body = keep_body(run.execution)
    assert body is not None, "it is kept"
    return body


@unit_of_work
def end(principal: Principal, run_id: str) -> None:
    """End a kept environment now; raise as `extend` does.

    Its runner removes it within the time between two heartbeats.
    """
    run = _load_kept_run(principal, run_id)
    end_keeping(run, by=principal.label)
    save_runs([run])


def end_keeping(run: RunAggregate, *, by: str) -> bool:
    """End the keeping of an ended run, if its environment is kept; return whether it was."""
    execution = run.execution
    if not run.is_over or not run.execution.has_kept_environment:
        return False
    until = min(run.now, execution.keep_alive_until or run.now)
    run.change_run(
        keep_alive_until=until, keep_ended_at=run.now, keep_ended_by=by, bound_agent_id=""
    )
    run.nudge(keep_nudge(execution.run_id))
    run.nudge(OVERVIEW_NUDGE)
    run.nudge(REPEATS_NUDGE)
    return True


def end_overdue() -> None:
    """End the environments that are over their time."""
    due = kept_runs().filter(keep_alive_until__lte=clock.now())
    for pk in list(due.values_list("pk", flat=True)):
        _end_overdue(pk)


@unit_of_work
def _end_overdue(pk: UUID) -> None:
    run = load_run(pk)
    if run is None or not clock.is_past(run.execution.keep_alive_until, run.now):
        return
    if end_keeping(run, by=""):
        save_runs([run])


def tell_owners() -> None:
    """Tell the owners of environments that end soon, once for each end, by mail if it is set."""
    now = clock.now()
    soon = kept_runs().filter(keep_told_at=None, keep_alive_until__lte=now + TOLD_BEFORE)
    for row in list(soon):
        until = row.keep_alive_until
        if until is None or tell_at(until, row.keep_alive_ms) > now:
            continue
        if _claim_telling(row.pk, until, now) and conf.mails_of_keeping() and mail_server():
            _mail(row, until, now)


@unit_of_work
def _claim_telling(pk: UUID, until: datetime, now: datetime) -> bool:
    untold = Execution.objects.filter(pk=pk, keep_told_at=None, keep_alive_until=until)
    return bool(untold.update(keep_told_at=now))


def _mail(row: Execution, until: datetime, now: datetime) -> None:
    left = durations.format_duration(max(1, round((until - now).total_seconds())))
    text = _TEXT.format(
        suite=row.suite_title,
        run=row.run_id,
        until=f"{until:%Y-%m-%d %H:%M}",
        page=conf.run_page(row.run_id),
    )
    address = email_of(row.owner_id)
    if not address:
        return
    try:
        send_mail(address, subject=_SUBJECT.format(run=row.run_id, left=left), text=text)
    except (MailUnavailable, RecipientRefused) as error:
        log.warning("the owner of %s was not told of its end: %s", row.run_id, error.detail)


def _load_kept_run(principal: Principal, run_id: str) -> RunAggregate:
    execution = get_execution(principal, run_id)
    principal.require(Role.RUNNER)
    run = load_run(execution.pk)
    is_over_time = run is not None and clock.is_past(run.execution.keep_alive_until, run.now)
    if run is None or not run.is_over or not run.execution.has_kept_environment or is_over_time:
        raise NotKept(not_kept_text(run.execution if run else execution))
    return run
