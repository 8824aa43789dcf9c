"""The first example suite, launched and shown live in the terminal of `up`."""

from __future__ import annotations

import threading
import time
from typing import Any, Final

from rich.console import Console

from apps.accounts import api as accounts
from apps.console import conf
from apps.executions import api as executions
from apps.executions import terminal_view
from apps.platform_settings.api import BackendUnavailable
from apps.suites import api as suites
from kernel.errors import PlatformError

RUNNER_S: Final = 30  # the runner registers within this time, or its log says why not
SUITE: Final = "hello"
_NEXT: Final = "shop"


def is_there() -> bool:
    """Whether the suite that `up` launches is among the suites of this installation."""
    return _is_known(SUITE)


def images() -> list[str]:
    """The images that the example suites name, the demo's first."""
    wanted: list[str] = []
    for suite_id in dict.fromkeys([SUITE, *conf.example_suites()]):
        try:
            topology = suites.get_definition(suite_id).get("topology", [])
        except suites.SuiteNotFound:
            continue
        wanted += [node["image"] for node in topology if "image" in node]
    return list(dict.fromkeys(wanted))


def show(console: Console, *, stop: threading.Event) -> None:
    """Launch and follow until the run is over or `stop` is set; errors are shown, not raised."""
    try:
        request = executions.LaunchRequest(suite_id=SUITE)
        run_id = _launched(request, stop)["id"]
        console.print(f"[bold]{_page(run_id)}[/]", soft_wrap=True)
        terminal_view.watch(run_id, console, stop=stop)
        if not stop.is_set():
            terminal_view.print_verdict(executions.run_detail(run_id), console)
            _say_what_next(run_id, console)
    except PlatformError as error:
        console.print(f"[red]✗[/] {SUITE} was not launched:", end=" ")
        console.print(error.detail, markup=False, soft_wrap=True)


def _page(run_id: str) -> str:
    return f"{conf.base_url()}/executions/{run_id}"


def _say_what_next(run_id: str, console: Console) -> None:
    console.print(
        f"\n  see the run    {_page(run_id)}\n"
        f"  launch another {launch_command()}\n"
        "  serving until Ctrl-C",
        markup=False,
        soft_wrap=True,
    )


def launch_command() -> str:
    """A command that works here: `shop` needs images, and the workspace may hold other suites."""
    wanted = (SUITE,) if conf.runs_processes() else (_NEXT, SUITE)
    others = (suite["id"] for suite in suites.list_suites())
    suite_id = next((one for one in wanted if _is_known(one)), None) or next(others, "SUITE")
    return f"{conf.command_line()} run launch {suite_id} --watch"


def _is_known(suite_id: str) -> bool:
    try:
        return suites.find_suite(suite_id).suite_id == suite_id
    except suites.SuiteNotFound:
        return False


def _launched(request: executions.LaunchRequest, stop: threading.Event) -> dict[str, Any]:
    """Launch; while the runner has not come online yet, ask again. Raises PlatformError."""
    deadline = time.monotonic() + RUNNER_S
    while True:
        try:
            return executions.launch(accounts.operator(), request)
        except BackendUnavailable:
            if stop.wait(0.1) or time.monotonic() > deadline:
                raise


def left_running() -> list[str]:
    """A sentence for each run that goes on when `up` starts again."""
    return [
        f"{run['id']} ({run['suiteTitle']}) is not over: the next `up` goes on with it"
        for run in executions.recent_runs(status="Booting,Canceling,Queued", suite_id="", limit=50)
    ]
