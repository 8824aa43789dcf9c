"""`partita run launch|rerun|list|show|logs|cancel`: runs in the store that this machine uses."""

from __future__ import annotations

import json
import sys
import threading
from argparse import ArgumentTypeError
from collections.abc import Mapping
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import msgspec

from apps.accounts import api as accounts
from apps.executions import api as executions
from apps.executions import conf, terminal_rerun
from apps.executions.domain.runs import RunSummary
from apps.executions.domain.states import FINAL_EXECUTION, ExecutionStatus
from apps.observability.api import exported_telemetry
from apps.operations.api import (
    ExitCode,
    VerbCommand,
    confirm,
    escape,
    print_json,
    print_table,
    printable,
)
from apps.suites import api as suites
from kernel.durations import parse_duration_ms
from kernel.errors import InvalidInput, NotFound

if TYPE_CHECKING:
    from rich.console import Console

    from apps.executions.selectors.detail import RunDetail

Options = Mapping[str, Any]  # of a verb
_MOST_RUNS: Final = 200


class Command(VerbCommand):
    help = "Launch runs and look at them. A running `up`, or a runner and a worker, does the work."
    examples = """\
  partita run launch hello --watch
  partita run launch shop --profile broken.yaml --watch --timeout 5m
  partita run launch shop -o json          the created run, at once
  partita run list --status Failed
  partita run why run-0123456789ab         what failed, and why
  partita run logs run-0123456789ab --follow --source api
  partita run logs run-0123456789ab --regex 'row 39\\d of'
  partita run logs run-0123456789ab --failed   the failed steps alone
  partita run cancel run-0123456789ab --reason "wrong branch"
  partita run rerun run-0123456789ab --failed --watch   what failed, and what that needs
  partita run rerun run-0123456789ab --step check --dry-run
  partita run show run-0123456789ab --since-green
an id may also be the address of the run's page"""

    def add_arguments(self, parser: Any) -> None:
        verbs = self.add_verbs(parser)
        self._add_launch(verbs)
        self._add_rerun(verbs)
        listing = self.add_verb(verbs, "list", list_runs, "list runs, newest first")
        listing.add_argument("--status", type=statuses, help="comma list, such as Failed,Canceled")
        listing.add_argument("--suite", default="", help="only runs of this suite")
        listing.add_argument("--limit", type=limit, default=20, help="1 to 200, default 20")
        show = self.add_verb(verbs, "show", show_run, "show one run: steps, reasons, artifacts")
        show.add_argument("run", type=run_id_of, metavar="RUN")
        show.add_argument("--all", action="store_true", help="a row for every healthy step, too")
        show.add_argument(
            "--since-green",
            action="store_true",
            help="what differs from the last healthy run of the suite before it",
        )
        why = self.add_verb(verbs, "why", explain_run, "print why a run failed or was canceled")
        why.add_argument("run", type=run_id_of, metavar="RUN")
        logs = self.add_verb(verbs, "logs", show_logs, "print a run's log lines")
        logs.add_argument("run", type=run_id_of, metavar="RUN")
        logs.add_argument("-f", "--follow", action="store_true", help="go on until the run is over")
        steps = logs.add_mutually_exclusive_group()
        steps.add_argument(
            "--source", action="append", default=[], help="only this step; repeatable"
        )
        steps.add_argument("--failed", action="store_true", help="only the steps that failed")
        only = logs.add_mutually_exclusive_group()
        only.add_argument(
            "--search", metavar="TEXT", help="only lines with this text, in upper or lower case"
        )
        only.add_argument(
            "--regex", metavar="PATTERN", help="only lines that match this RE2 pattern"
        )
        cancel = self.add_verb(verbs, "cancel", cancel_run, "cancel a run")
        cancel.add_argument("run", type=run_id_of, metavar="RUN")
        cancel.add_argument("--reason", default="", help="kept with the run")

    def _add_launch(self, verbs: Any) -> None:
        launch = self.add_verb(verbs, "launch", launch_run, "launch a suite")
        launch.add_argument("suite", help="the suite's id")
        launch.add_argument(
            "--profile", default="", help="profile file; the default one when left out"
        )
        launch.add_argument("--backend", default="", help="backend id; chosen when left out")
        add_watch(launch)

    def _add_rerun(self, verbs: Any) -> None:
        text = "run an ended run again, in a new environment, with the files it had"
        rerun = self.add_verb(verbs, "rerun", rerun_run, text)
        rerun.add_argument("run", type=run_id_of, metavar="RUN")
        scope = rerun.add_mutually_exclusive_group()
        scope.add_argument(
            "--failed", action="store_true", help="what failed or did not run, and what that needs"
        )
        scope.add_argument("--step", default="", help="this step and what it needs")
        rerun.add_argument("--profile", default="", help="another profile of the same suite")
        rerun.add_argument(
            "--dry-run", action="store_true", help="print which steps would run and why; stop"
        )
        rerun.add_argument("-y", "--yes", action="store_true", help="do not ask on a terminal")
        add_watch(rerun)


def add_watch(parser: Any) -> None:
    parser.add_argument("-w", "--watch", action="store_true", help="show the run until it is over")
    parser.add_argument("--timeout", type=seconds, help="stop watching after, such as 5m (exit 13)")


def run_id_of(text: str) -> str:
    """A run's id, or the address of its page."""
    return text.rstrip("/").rsplit("/", 1)[-1].split("?")[0].split("#")[0]


def seconds(text: str) -> float:
    try:
        return parse_duration_ms(text) / 1000
    except ValueError as error:
        raise ArgumentTypeError(str(error)) from None


def limit(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= _MOST_RUNS:
        raise ArgumentTypeError(f"{text!r}: expected 1 to {_MOST_RUNS}")
    return int(text)


def statuses(text: str) -> str:
    """Return the comma list as the store has it; upper and lower case are the same."""
    known = {status.value.lower(): status.value for status in ExecutionStatus}
    names = [name.strip() for name in text.split(",")]
    if unknown := [name for name in names if name.lower() not in known]:
        raise ArgumentTypeError(f"{unknown[0]!r}: expected one of {', '.join(known.values())}")
    return ",".join(known[name.lower()] for name in names)


def require_watch(options: Options) -> None:
    if options["timeout"] and not options["watch"]:
        raise InvalidInput("--timeout ends the watching: it needs --watch")


def launch_run(options: Options) -> int:
    require_watch(options)
    request = executions.LaunchRequest(
        suite_id=options["suite"], profile=options["profile"], backend=options["backend"]
    )
    suites.focus_on([request.suite_id])
    try:
        with suites.kept_evaluations():
            summary = executions.launch(accounts.operator(), request)
    finally:
        suites.read_every_suite()
    return _show_launched(summary, options)


def rerun_run(options: Options) -> int:
    """Print the plan of a rerun, ask a person on a terminal, and start it."""
    require_watch(options)
    scope = executions.RerunScope.FAILED if options["failed"] else executions.RerunScope.ALL
    request = executions.RerunRequest(
        scope=executions.RerunScope.STEP if options["step"] else scope,
        step=options["step"],
        profile=options["profile"],
    )
    plan = executions.prepare_rerun(accounts.operator(), options["run"], request).plan
    if options["dry_run"] and options["output"] == "json":
        print_json(plan)
        return ExitCode.OK
    stream = sys.stdout if options["dry_run"] else sys.stderr  # stdout has the run's id
    stream.writelines(f"{line}\n" for line in terminal_rerun.plan_lines(plan))
    if options["dry_run"]:
        return ExitCode.OK
    if not options["yes"] and sys.stdin.isatty() and not confirm("run these steps?"):
        sys.stderr.write("nothing was started\n")
        return ExitCode.ERROR
    launched = executions.rerun(accounts.operator(), options["run"], request)
    return _show_launched(launched.summary, options)


def _show_launched(summary: RunSummary, options: Options) -> int:
    if not options["watch"]:
        _print_launched(summary, options["output"])
        return ExitCode.OK
    return _watch_launched(summary["id"], options)


def _watch_launched(run_id: str, options: Options) -> int:
    from rich.console import Console  # slow to import, as the view is: `run list` needs neither

    from apps.executions import terminal_view

    console = Console(stderr=options["output"] == "json", highlight=False)
    console.print(f"{run_id}  {conf.run_page(run_id)}", soft_wrap=True)
    stop = threading.Event()
    timer = _timer(options["timeout"], stop)
    try:
        terminal_view.watch(run_id, console, stop=stop)
    except KeyboardInterrupt:
        _say_it_goes_on(run_id, console)
        return ExitCode.STILL_RUNNING
    finally:
        timer.cancel()
    detail = executions.run_detail(run_id)
    if options["output"] == "json":
        print_json(detail)
    else:
        terminal_view.print_run(detail, console)
    if detail["status"] in FINAL_EXECUTION:
        return terminal_view.exit_code(detail)
    _say_it_goes_on(run_id, console)
    return ExitCode.TIMEOUT


def _say_it_goes_on(run_id: str, console: Console) -> None:
    console.print(
        f"not watched any longer, the run goes on; look again: partita run logs {run_id} -f; "
        f"end it: partita run cancel {run_id}",
        style="dim",
        soft_wrap=True,
    )


def _timer(timeout_s: float | None, stop: threading.Event) -> threading.Timer:
    """A started timer that sets `stop`; one that never fires when there is no time-out."""
    timer = threading.Timer(timeout_s or threading.TIMEOUT_MAX, stop.set)
    timer.daemon = True
    timer.start()
    return timer


def _print_launched(summary: RunSummary, output: str) -> None:
    if output == "json":
        print_json(summary)
        return
    sys.stdout.write(f"{summary['id']}\n")
    sys.stderr.write(f"{summary['status']}: {conf.run_page(summary['id'])}\n")


def list_runs(options: Options) -> int:
    runs = executions.recent_runs(
        status=options["status"] or "", suite_id=options["suite"], limit=options["limit"]
    )
    if options["output"] == "json":
        print_json({"executions": runs})
        return ExitCode.OK
    rows = [
        (
            run["id"],
            run["suiteId"],
            run["profile"],
            run["status"],
            run["duration"],
            f"{run['startedAt'][:10]} {run['startedAt'][11:19]}Z",  # to the second
            run["sentence"] if run["status"] != ExecutionStatus.HEALTHY else "",
        )
        for run in runs
    ]
    print_table(("ID", "SUITE", "PROFILE", "STATUS", "TOOK", "STARTED", "REASON"), rows)
    return ExitCode.OK


def show_run(options: Options) -> int:
    detail = executions.run_detail(options["run"])
    found = executions.run_since_green(options["run"]) if options["since_green"] else None
    if options["output"] == "json":
        print_json({**detail, "sinceGreen": found} if found else detail)
        return ExitCode.OK
    _print_detail(detail, every_step=options["all"])
    for artifact in detail["artifacts"]:
        name, path = printable(artifact["id"]), printable(artifact["path"])
        sys.stdout.write(f"artifact {name}  {artifact['size']} bytes  {path}\n")
    lines = terminal_rerun.attempt_lines(detail["attempts"], detail["id"])
    lines += terminal_rerun.since_green_lines(found) if found else []
    sys.stdout.writelines(f"{line}\n" for line in lines)
    return ExitCode.OK


def explain_run(options: Options) -> int:
    detail = executions.run_detail(options["run"], executions.STEPS_ONLY - {"verdict"})
    if options["output"] == "json":
        print_json(detail["verdict"])
    else:
        _print_detail(detail, only_verdict=True)
    return ExitCode.OK


def _print_detail(
    detail: RunDetail, *, every_step: bool = False, only_verdict: bool = False
) -> None:
    from rich.console import Console

    from apps.executions import terminal_view

    console = Console(highlight=False)
    if only_verdict:
        terminal_view.print_failures(detail["verdict"], console)
        terminal_view.print_sentence(detail, console)
        return
    console.print(
        f"[bold]{detail['id']}[/]  {escape(detail['suiteTitle'])} "
        f"with {escape(detail['profile'] or 'no profile')} on {escape(detail['backend'])}, "
        f"started {detail['startedAt']}",
        soft_wrap=True,
    )
    terminal_view.print_run(detail, console, every_step=every_step)


def show_logs(options: Options) -> int:
    from rich.console import Console

    from apps.executions import terminal_view

    run_id = options["run"]
    sources = _log_sources(run_id, options)
    if sources is None:
        sys.stderr.write("no step of this run has failed\n")
        return ExitCode.OK
    wanted = line_filter(sources, search=options["search"], regex=options["regex"])
    reader = terminal_view.LogReader(run_id)
    console, colours = Console(highlight=False), dict[str, str]()
    try:
        while True:
            over = executions.run_detail(run_id, executions.NO_PARTS)["status"] in FINAL_EXECUTION
            lines = chain.from_iterable(reader.batches())
            for line in (each for each in lines if wanted.find(each) is not None):
                if options["output"] == "json":  # one object a line: a log has no end to wait for
                    text = json.dumps(msgspec.to_builtins(line), ensure_ascii=False)
                elif console.is_terminal:
                    console.print(terminal_view.rendered(line, colours), soft_wrap=True)
                    continue
                else:
                    text = f"{line.timestamp} [{line.source}] {printable(line.text)}"
                sys.stdout.write(f"{text}\n")
            sys.stdout.flush()
            if over or not options["follow"]:
                return ExitCode.OK
            reader.wait()
    finally:
        reader.close()


def _log_sources(run_id: str, options: Options) -> frozenset[str] | None:
    """Return the steps whose lines to print, empty for all; None if none of those asked for failed.

    Raise NotFound for a step that the run does not have.
    """
    steps = executions.run_detail(run_id, executions.STEPS_ONLY)["steps"]
    if options["failed"] and options["follow"]:
        raise InvalidInput("--failed prints what has failed so far: leave out --follow")
    if options["failed"]:
        return frozenset(step["id"] for step in steps if step["status"] == "failed") or None
    known = ["execution", *(step["id"] for step in steps)]
    sources = frozenset(options["source"])
    if unknown := sorted(sources.difference(known)):  # a name that no line can have
        raise NotFound(f"the run has no step {unknown[0]!r}; known: {', '.join(known)}")
    return sources


def line_filter(
    sources: frozenset[str], *, search: str | None, regex: str | None
) -> executions.LineFilter:
    """Return the filter of `--source`, `--search` and `--regex`; raise InvalidInput."""
    query = regex or search or ""
    if len(query) > executions.PATTERN_MAX_CHARACTERS:
        most = executions.PATTERN_MAX_CHARACTERS
        raise InvalidInput(f"--regex and --search take at most {most} characters")
    try:
        pattern = executions.compile_pattern(query, regex=bool(regex), case=False)
    except executions.PatternInvalid as error:
        raise InvalidInput(f"--regex is not a valid RE2 pattern: {error}") from None
    return executions.LineFilter(pattern=pattern, sources=sources)


def cancel_run(options: Options) -> int:
    with exported_telemetry():  # a queued run ends here
        summary = executions.cancel(accounts.operator(), options["run"], reason=options["reason"])
    if options["output"] == "json":
        print_json(summary)
    else:
        sys.stdout.write(f"{summary['id']}: {summary['status']}\n")
    return ExitCode.OK
