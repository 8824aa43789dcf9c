"""`manage.py run launch|list|show|logs|cancel`: runs in the store that this machine uses."""

from __future__ import annotations

import json
import sys
import threading
from argparse import ArgumentTypeError
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import msgspec

from apps.accounts import api as accounts
from apps.executions import api as executions
from apps.executions import conf
from apps.executions.domain.runs import RunSummary
from apps.executions.domain.states import ExecutionStatus
from apps.observability.api import exported_telemetry
from apps.operations.api import ExitCode, VerbCommand, escape, print_json, print_table, printable
from kernel.durations import parse_duration_ms
from kernel.errors import InvalidInput

if TYPE_CHECKING:
    from rich.console import Console

_MOST_RUNS: Final = 200


class Command(VerbCommand):
    help = "Launch runs and look at them. A running `up`, or a runner and a worker, does the work."
    examples = """\
  manage.py run launch hello --watch
  manage.py run launch shop --profile broken.yaml --watch --timeout 5m
  manage.py run launch shop -o json          the created run, at once
  manage.py run list --status Failed
  manage.py run logs run-0123456789ab --follow --source api
  manage.py run cancel run-0123456789ab --reason "wrong branch"
an id may also be the address of the run's page"""

    def add_arguments(self, parser: Any) -> None:
        verbs = parser.add_subparsers(required=True, metavar="VERB")
        self._add_launch(verbs)
        listing = self.add_verb(verbs, "list", list_runs, "list runs, newest first")
        listing.add_argument("--status", type=statuses, help="comma list, such as Failed,Canceled")
        listing.add_argument("--suite", default="", help="only runs of this suite")
        listing.add_argument("--limit", type=limit, default=20, help="1 to 200, default 20")
        show = self.add_verb(verbs, "show", show_run, "show one run: steps, reasons, artifacts")
        show.add_argument("run", type=run_id_of, metavar="RUN")
        logs = self.add_verb(verbs, "logs", show_logs, "print a run's log lines")
        logs.add_argument("run", type=run_id_of, metavar="RUN")
        logs.add_argument("-f", "--follow", action="store_true", help="go on until the run is over")
        logs.add_argument(
            "--source", action="append", default=[], help="only this step; repeatable"
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
        launch.add_argument(
            "-w", "--watch", action="store_true", help="show the run until it is over"
        )
        launch.add_argument(
            "--timeout", type=seconds, help="stop watching after, such as 5m (exit 13)"
        )


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
    """The comma list, when each name in it is a status of runs."""
    known = [status.value for status in ExecutionStatus]
    if unknown := [name for name in text.split(",") if name.strip() not in known]:
        raise ArgumentTypeError(f"{unknown[0]!r}: expected one of {', '.join(known)}")
    return text


def launch_run(options: dict[str, Any]) -> int:
    if options["timeout"] and not options["watch"]:
        raise InvalidInput("--timeout ends the watching: it needs --watch")
    request = executions.LaunchRequest(
        suite_id=options["suite"], profile=options["profile"], backend=options["backend"]
    )
    summary = executions.launch(accounts.operator(), request)
    if not options["watch"]:
        _print_launched(summary, options["output"])
        return ExitCode.OK
    return _watch_launched(summary["id"], options)


def _watch_launched(run_id: str, options: dict[str, Any]) -> int:
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
        terminal_view.print_verdict(detail, console)
    if detail["status"] in executions.FINAL_EXECUTION:
        return terminal_view.exit_code(detail)
    _say_it_goes_on(run_id, console)
    return ExitCode.TIMEOUT


def _say_it_goes_on(run_id: str, console: Console) -> None:
    console.print(
        f"not watched any longer, the run goes on; look again: manage.py run logs {run_id} -f; "
        f"end it: manage.py run cancel {run_id}",
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


def list_runs(options: dict[str, Any]) -> int:
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
            run.get("reason", ""),
        )
        for run in runs
    ]
    print_table(("ID", "SUITE", "PROFILE", "STATUS", "TOOK", "STARTED", "REASON"), rows)
    return ExitCode.OK


def show_run(options: dict[str, Any]) -> int:
    detail = executions.run_detail(options["run"])
    if options["output"] == "json":
        print_json(detail)
        return ExitCode.OK
    from rich.console import Console

    from apps.executions import terminal_view

    console = Console(highlight=False)
    console.print(
        f"[bold]{detail['id']}[/]  {escape(detail['suiteTitle'])} "
        f"with {escape(detail['profile'] or 'no profile')} on {escape(detail['backend'])}, "
        f"started {detail['startedAt']}",
        soft_wrap=True,
    )
    terminal_view.print_verdict(detail, console)
    for artifact in detail["artifacts"]:
        name, path = escape(artifact["id"]), escape(artifact["path"])
        console.print(f"artifact {name}  {artifact['size']} bytes  {path}", soft_wrap=True)
    return ExitCode.OK


def show_logs(options: dict[str, Any]) -> int:
    from rich.console import Console

    from apps.executions import terminal_view

    run_id, sources = options["run"], frozenset(options["source"])
    known = ["execution", *(step["id"] for step in executions.run_detail(run_id)["steps"])]
    if unknown := sorted(sources.difference(known)):  # a name that no line can have
        raise InvalidInput(f"the run has no step {unknown[0]!r}; known: {', '.join(known)}")
    reader = terminal_view.LogReader(run_id)
    console, colours = Console(highlight=False), dict[str, str]()
    try:
        while True:
            over = executions.run_detail(run_id)["status"] in executions.FINAL_EXECUTION
            lines = chain.from_iterable(reader.batches())
            for line in (each for each in lines if not sources or each.source in sources):
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


def cancel_run(options: dict[str, Any]) -> int:
    with exported_telemetry():  # a queued run ends here
        summary = executions.cancel(accounts.operator(), options["run"], reason=options["reason"])
    if options["output"] == "json":
        print_json(summary)
    else:
        sys.stdout.write(f"{summary['id']}: {summary['status']}\n")
    return ExitCode.OK
