"""`run launch`, `rerun`, `watch`, `wait`, `cancel` and `keep`."""

from __future__ import annotations

import importlib
import math
import sys
import time
from typing import TYPE_CHECKING, Any

from partita_client.client import ENDED
from partita_client.command.ci_options import add_ci_options, require_ci
from partita_client.command.output import note, paint, printable, say, show_document
from partita_client.command.parser import (
    CommandSession,
    CommandVerb,
    add_run,
    keep_ms,
    keep_ms_or_none,
    seconds,
)
from partita_client.command.run_views import (
    exit_code_of,
    output_line,
    plan_lines,
    run_lines,
    source_width,
)
from partita_client.errors import BadConfiguration, WaitTimeout
from partita_client.event_stream import AWAY_S
from partita_client.exit_codes import ExitCode
from partita_client.patience import wait_for_answer

if TYPE_CHECKING:  # dictionaries by another name: a command does without
    from partita_client.documents import RunListing, RunReport

_TRIGGERS = ("Manual", "CI", "API")
_TEXT_PARTS = ("steps", "verdict", "artifacts")


def add_launch(parser: Any) -> None:
    parser.add_argument("suite", metavar="SUITE", help="the suite's id, or a repository reference")
    parser.add_argument("--profile", default="", help="profile file; the default one if left out")
    parser.add_argument("--backend", default="", help="backend id; chosen if left out")
    parser.add_argument(
        "--concurrency-group",
        default="",
        metavar="GROUP",
        help="one run of the group is active in the workspace; the newest other one waits",
    )
    parser.add_argument(
        "--cancel-in-progress", action="store_true", help="cancel the active run of the group"
    )
    parser.add_argument("--trigger", choices=_TRIGGERS, default="Manual", help="who asks for it")
    for name in ("author", "commit", "branch", "message"):
        parser.add_argument(f"--{name}", default="", help="kept with the run")
    _add_after_launch(parser, timeout_codes="exit 13; with --ci 3, 1h unless given")
    add_ci_options(parser)


def add_rerun(parser: Any) -> None:
    add_run(parser)
    scope = parser.add_mutually_exclusive_group()
    scope.add_argument(
        "--failed", action="store_true", help="what failed or did not run, and what that needs"
    )
    scope.add_argument("--step", default="", help="this step and what it needs")
    parser.add_argument("--profile", default="", help="another profile of the same suite")
    parser.add_argument(
        "--dry-run", action="store_true", help="print which steps would run and why; stop"
    )
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask")
    _add_after_launch(parser)


def _add_after_launch(parser: Any, *, timeout_codes: str = "exit 13") -> None:
    parser.add_argument(
        "--keep",
        dest="keep_ms",
        type=keep_ms_or_none,
        metavar="TIME",
        help="keep the environment after the verdict, such as 30m, at most 4h; no: remove it, even "
        "if the profile keeps it",
    )
    parser.add_argument("--idempotency-key", default="", metavar="KEY", help="one run for a key")
    view = parser.add_mutually_exclusive_group()
    view.add_argument("-w", "--watch", action="store_true", help="show it live until it is over")
    view.add_argument("--wait", action="store_true", help="wait until it is over, without its log")
    add_plain(parser)
    add_timeout(parser, timeout_codes)


def add_plain(parser: Any) -> None:
    parser.add_argument(
        "--plain", action="store_true", help="log lines alone, also on a terminal: no live table"
    )


def add_timeout(parser: Any, codes: str = "exit 13") -> None:
    parser.add_argument("--timeout", type=seconds, help=f"stop after, such as 5m ({codes})")


def launch_run(session: CommandSession) -> int:
    options = session.options
    require_ci(options)
    if options.ci:  # which other commands need not load
        ci_launch = importlib.import_module("partita_client.command.ci_launch")
        return int(ci_launch.launch_in_ci(session))
    _require_watch(options)
    require_group(options)
    if not options.suite.strip():
        raise BadConfiguration("no suite is named", advice="`partita suite list` shows the suites")
    run = session.client.launch(
        options.suite, idempotency_key=options.idempotency_key, **launch_body(options)
    )
    return _after_launch(session, run)


def launch_body(options: Any) -> dict[str, object]:
    """Return what the options say of a launch."""
    group = options.concurrency_group.strip()
    concurrency = {"group": group, "cancelInProgress": options.cancel_in_progress}
    return {
        "profile": options.profile,
        "backend": options.backend,
        "keepAliveMs": options.keep_ms,
        "trigger": options.trigger,
        "author": options.author,
        "commit": options.commit,
        "branch": options.branch,
        "message": options.message,
        "concurrency": concurrency if group else None,
    }


def require_group(options: Any) -> None:
    if options.cancel_in_progress and not options.concurrency_group.strip():
        raise BadConfiguration("--cancel-in-progress needs --concurrency-group")


def rerun_run(session: CommandSession) -> int:
    """Print the plan of a rerun, ask a person on a terminal, and start it."""
    options = session.options
    _require_watch(options)
    scope = "step" if options.step else "failed" if options.failed else "all"
    body = {
        "scope": scope,
        "step": options.step,
        "profile": options.profile,
        "keepAliveMs": options.keep_ms,
    }
    plan = session.client.plan_rerun(options.run, **body)
    if options.dry_run and not session.is_for_people:
        show_document(plan, session.form, name=options.run)
        return ExitCode.OK
    write = say if options.dry_run else note  # stdout has the run's id
    for line in plan_lines(plan):
        write(line)
    if options.dry_run:
        return ExitCode.OK
    if not options.yes and sys.stdin.isatty() and not confirm("run these steps?"):
        note("nothing was started")
        return ExitCode.ERROR
    run = session.client.rerun(options.run, idempotency_key=options.idempotency_key, **body)
    return _after_launch(session, run)


def _require_watch(options: Any) -> None:
    if options.timeout and not (options.watch or options.wait):
        raise BadConfiguration("--timeout ends the watching: it needs --watch or --wait")


def _after_launch(session: CommandSession, run: RunListing) -> int:
    if session.options.watch:
        return follow_run(session, run["id"], has_lines=True)
    if session.options.wait:
        return follow_run(session, run["id"], has_lines=False)
    if session.is_for_people or session.form == "name":
        say(printable(run["id"]))
        note(printable(f"{run['status']}: {page_of(session, run['id'])}"))
    else:
        show_document(run, session.form)
    return ExitCode.OK


def watch_run(session: CommandSession) -> int:
    return follow_run(session, session.options.run, has_lines=True)


def wait_for_run(session: CommandSession) -> int:
    return follow_run(session, session.options.run, has_lines=False)


def follow_run(session: CommandSession, run_id: str, *, has_lines: bool) -> int:
    """Show a run until it is over, the time is, or Ctrl-C; return its exit code."""
    write = say if session.is_for_people else note  # stdout has nothing but the document
    ends_at = time.monotonic() + session.options.timeout if session.options.timeout else None
    try:
        return _follow(session, run_id, has_lines=has_lines, ends_at=ends_at)
    except WaitTimeout:
        _show_run(session, session.client.run(run_id, parts=_TEXT_PARTS))
        write(_goes_on(run_id))
        return ExitCode.TIMEOUT
    except KeyboardInterrupt:
        write("\n" + _goes_on(run_id))
        return ExitCode.STILL_RUNNING


def _follow(session: CommandSession, run_id: str, *, has_lines: bool, ends_at: float | None) -> int:
    client = session.client
    write = say if session.is_for_people else note
    run = client.run(run_id, parts=("steps",))
    write(f"{run_id}  {page_of(session, run_id)}")
    if waits := _queue_words(run):
        write(paint(waits, "dim"))
    left_s = None if ends_at is None else max(0.05, ends_at - time.monotonic())
    if has_lines:
        width, colors = source_width(run["steps"]), dict[str, str]()
        live_view = importlib.import_module("partita_client.command.live_view")
        with live_view.open_live_view(session, run, write) as write_line:
            for record in client.log(run_id, timeout_s=left_s):
                write_line(output_line(record["line"], colors, width))
    elif run["status"] not in ENDED:
        client.wait(run_id, timeout_s=left_s)
    ended = wait_for_answer(
        lambda: client.run(run_id, parts=_TEXT_PARTS),
        until=min(time.monotonic() + AWAY_S, ends_at or math.inf),
        on_away=session.say_away,
    )
    _show_run(session, ended)
    return exit_code_of(ended)


def _queue_words(run: RunReport) -> str:
    if not (position := run.get("queuePosition")):
        return ""
    queue: Any = run.get("queue", {})
    waits = f"; {queue['waitsFor']}" if queue.get("waitsFor") else ""
    return f"number {position} in the queue{waits}"


def _show_run(session: CommandSession, run: RunReport) -> None:
    if session.is_for_people:
        for line in run_lines(run):
            say(line)
    else:
        show_document(run, session.form, name=run["id"])


def _goes_on(run_id: str) -> str:
    text = (
        f"not watched any longer, the run goes on; look again: partita run watch {run_id}; "
        f"end it: partita run cancel {run_id}"
    )
    return paint(text, "dim")


def page_of(session: CommandSession, run_id: str) -> str:
    return f"{session.choice.pages_url or session.client.url}/executions/{run_id}"


def add_cancel(parser: Any) -> None:
    add_run(parser)
    parser.add_argument("--reason", default="", help="kept with the run")


def cancel_run(session: CommandSession) -> int:
    run = session.client.cancel(session.options.run, reason=session.options.reason)
    if session.is_for_people:
        say(printable(f"{run['id']}: {run['status']}"))
    else:
        show_document(run, session.form, name=run["id"])
    return ExitCode.OK


def add_keep(parser: Any) -> None:
    add_run(parser)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument(
        "--for", dest="keep_ms", type=keep_ms, metavar="TIME", help="from now on, such as 30m"
    )
    what.add_argument("--end", action="store_true", help="remove it now")


def keep_run(session: CommandSession) -> int:
    run_id = session.options.run
    if session.options.end:
        session.client.end_keeping(run_id)
        body, text = {"id": run_id}, f"{run_id}: its environment is removed within seconds"
    else:
        body = session.client.keep(run_id, session.options.keep_ms)
        text = f"{run_id}: its environment is kept until {body['until'][11:16]} UTC"
    if session.is_for_people:
        say(text)
    else:
        show_document(body, session.form, name=run_id)
    return ExitCode.OK


def confirm(question: str) -> bool:
    """Ask a person on the terminal; anything but yes is no."""
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def add_open(parser: Any) -> None:
    add_run(parser)
    parser.add_argument("--print", action="store_true", help="print the address, open nothing")


def open_run(session: CommandSession) -> int:
    """Open the page of a run in a browser, or print its address where there is none."""
    run = session.client.run(session.options.run, parts=())
    address = page_of(session, run["id"])
    say(printable(address))
    if not session.options.print and sys.stdout.isatty():
        import webbrowser

        webbrowser.open(address)
    sys.stdout.flush()
    return ExitCode.OK


def _add_wait(parser: Any) -> None:
    add_run(parser)
    add_timeout(parser)


def _add_watch(parser: Any) -> None:
    _add_wait(parser)
    add_plain(parser)


VERBS = (
    CommandVerb(name="launch", text="launch a suite", run=launch_run, add_arguments=add_launch),
    CommandVerb(
        name="rerun",
        text="run an ended run again, in a new environment, with the files it had",
        run=rerun_run,
        add_arguments=add_rerun,
    ),
    CommandVerb(
        name="watch",
        text="show a run live until it is over, from its first line on",
        run=watch_run,
        add_arguments=_add_watch,
    ),
    CommandVerb(
        name="wait",
        text="wait until a run is over; the exit code says how it ended",
        run=wait_for_run,
        add_arguments=_add_wait,
    ),
    CommandVerb(name="cancel", text="cancel a run", run=cancel_run, add_arguments=add_cancel),
    CommandVerb(
        name="keep",
        text="extend or end the kept environment of a run",
        run=keep_run,
        add_arguments=add_keep,
    ),
    CommandVerb(
        name="open",
        text="open the page of a run in a browser",
        run=open_run,
        add_arguments=add_open,
        formats=(),
    ),
)
