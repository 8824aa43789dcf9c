"""`run launch` and `run rerun`, and the view of a run until it is over."""

from __future__ import annotations

import sys
import threading
from typing import Any

from rich.console import Console

from apps.accounts import api as accounts
from apps.executions import api as executions
from apps.executions import conf, terminal_rerun, terminal_view
from apps.executions.domain.rerun import RerunScope
from apps.executions.domain.runs import MAX_GROUP_LENGTH, Concurrency, RunSummary
from apps.executions.domain.states import FINAL_EXECUTION
from apps.executions.management.verbs.arguments import Options, add_run, seconds
from apps.executions.management.verbs.keep import add_keep
from apps.executions.services.rerun import RerunRequest, launch_rerun, prepare_rerun
from apps.operations.api import ExitCode, VerbCommand, confirm, print_json
from apps.suites import api as suites
from kernel.errors import InvalidInput


def add_verbs(command: VerbCommand, verbs: Any) -> None:
    launch = command.add_verb(verbs, "launch", launch_run, "launch a suite")
    launch.add_argument("suite", help="the suite's id")
    launch.add_argument("--profile", default="", help="profile file; the default one when left out")
    launch.add_argument("--backend", default="", help="backend id; chosen when left out")
    launch.add_argument(
        "--concurrency-group",
        default="",
        metavar="GROUP",
        help="one run of the group is active in the workspace; the newest other one waits",
    )
    launch.add_argument(
        "--cancel-in-progress", action="store_true", help="cancel the active run of the group"
    )
    add_keep(launch)
    add_watch(launch)
    text = "run an ended run again, in a new environment, with the files it had"
    rerun = command.add_verb(verbs, "rerun", rerun_run, text)
    add_run(rerun)
    scope = rerun.add_mutually_exclusive_group()
    scope.add_argument(
        "--failed", action="store_true", help="what failed or did not run, and what that needs"
    )
    scope.add_argument("--step", default="", help="this step and what it needs")
    rerun.add_argument("--profile", default="", help="another profile of the same suite")
    add_keep(rerun)
    rerun.add_argument(
        "--dry-run", action="store_true", help="print which steps would run and why; stop"
    )
    rerun.add_argument("-y", "--yes", action="store_true", help="do not ask on a terminal")
    add_watch(rerun)


def add_watch(parser: Any) -> None:
    parser.add_argument("-w", "--watch", action="store_true", help="show the run until it is over")
    parser.add_argument("--timeout", type=seconds, help="stop watching after, such as 5m (exit 13)")


def require_watch(options: Options) -> None:
    if options["timeout"] and not options["watch"]:
        raise InvalidInput("--timeout ends the watching: it needs --watch")


def launch_run(options: Options) -> int:
    require_watch(options)
    request = executions.LaunchRequest(
        suite_id=options["suite"],
        profile=options["profile"],
        backend=options["backend"],
        keep_alive_ms=options["keep_ms"],
        concurrency=_concurrency(options),
    )
    suites.focus_on([request.suite_id])
    try:
        with suites.keep_evaluations():
            summary = executions.launch(accounts.operator(), request)
    finally:
        suites.read_every_suite()
    return _show_launched(summary, options)


def _concurrency(options: Options) -> Concurrency | None:
    group = options["concurrency_group"].strip()
    if not group:
        if options["cancel_in_progress"]:
            raise InvalidInput("--cancel-in-progress needs --concurrency-group")
        return None
    if len(group) > MAX_GROUP_LENGTH:
        raise InvalidInput(f"--concurrency-group has more than {MAX_GROUP_LENGTH} characters")
    return Concurrency(group=group, cancel_in_progress=options["cancel_in_progress"])


def rerun_run(options: Options) -> int:
    """Print the plan of a rerun, ask a person on a terminal, and start it."""
    require_watch(options)
    scope = RerunScope.FAILED if options["failed"] else RerunScope.ALL
    request = RerunRequest(
        scope=RerunScope.STEP if options["step"] else scope,
        step=options["step"],
        profile=options["profile"],
        keep_alive_ms=options["keep_ms"],
    )
    plan = prepare_rerun(accounts.operator(), options["run"], request).plan
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
    launched = launch_rerun(accounts.operator(), options["run"], request)
    return _show_launched(launched.summary, options)


def _show_launched(summary: RunSummary, options: Options) -> int:
    if not options["watch"]:
        _print_launched(summary, options["output"])
        return ExitCode.OK
    return _watch_launched(summary["id"], options)


def _watch_launched(run_id: str, options: Options) -> int:
    console = Console(stderr=options["output"] == "json", highlight=False)
    console.print(f"{run_id}  {conf.run_page(run_id)}", soft_wrap=True)
    stop = threading.Event()
    timer = start_timer(options["timeout"], stop)
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


def start_timer(timeout_s: float | None, stop: threading.Event) -> threading.Timer:
    """Return a started timer that sets `stop`; one that never fires when there is no time-out."""
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
