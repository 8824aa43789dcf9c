"""`run list`, `run show`, `run why` and `run cancel`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from rich.console import Console

from apps.accounts import api as accounts
from apps.executions import api as executions
from apps.executions import terminal_rerun, terminal_view
from apps.executions.domain.states import ExecutionStatus
from apps.executions.management.verbs.arguments import Options, add_run, limit, statuses
from apps.executions.selectors.attempts import run_since_green
from apps.executions.services import cancellations
from apps.observability.api import exported_telemetry
from apps.operations.api import (
    ExitCode,
    VerbCommand,
    escape,
    print_json,
    print_table,
    printable,
)

if TYPE_CHECKING:
    from apps.executions.selectors.detail import RunDetail


def add_verbs(command: VerbCommand, verbs: Any) -> None:
    listing = command.add_verb(verbs, "list", list_runs, "list runs, newest first")
    listing.add_argument("--status", type=statuses, help="comma list, such as Failed,Canceled")
    listing.add_argument("--suite", default="", help="only runs of this suite")
    listing.add_argument("--limit", type=limit, default=20, help="1 to 200, default 20")
    show = command.add_verb(verbs, "show", show_run, "show one run: steps, reasons, artifacts")
    add_run(show)
    show.add_argument("--all", action="store_true", help="a row for every healthy step, too")
    show.add_argument(
        "--since-green",
        action="store_true",
        help="what differs from the last healthy run of the suite before it",
    )
    why = command.add_verb(verbs, "why", explain_run, "print why a run failed or was canceled")
    add_run(why)
    cancel = command.add_verb(verbs, "cancel", cancel_run, "cancel a run")
    add_run(cancel)
    cancel.add_argument("--reason", default="", help="kept with the run")


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
    found = run_since_green(options["run"]) if options["since_green"] else None
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


def cancel_run(options: Options) -> int:
    with exported_telemetry():  # a queued run ends here
        summary = cancellations.cancel(
            accounts.operator(), options["run"], reason=options["reason"]
        )
    if options["output"] == "json":
        print_json(summary)
    else:
        sys.stdout.write(f"{summary['id']}: {summary['status']}\n")
    return ExitCode.OK
