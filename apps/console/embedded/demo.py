"""The example suites: their images, and the first one, shown live in the terminal of `up`."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from rich.console import Console

from apps.accounts import api as accounts
from apps.console import conf
from apps.executions import api as executions
from apps.executions import terminal_view
from apps.http.api import public_url
from apps.platform_settings.api import BackendUnavailable, local_runtime
from apps.suites import api as suites
from apps.workers import api as workers
from kernel.errors import PlatformError

PULL_S: Final = 60
_RETRY_S: Final = 0.1
RUNNER_S: Final = 30  # the time for the runner to register
SUITE: Final = "hello"
_NEXT: Final = "shop"


def is_installed() -> bool:
    """Return whether this installation has the suite that `up` launches."""
    return _is_known(SUITE)


def images() -> list[str]:
    """Return the images that the example suites name, the demo's first."""
    wanted: list[str] = []
    for suite_id in dict.fromkeys([SUITE, *conf.example_suites()]):
        try:
            topology = suites.get_definition(suite_id).get("topology", [])
        except suites.SuiteNotFound:
            continue
        wanted += [node["image"] for node in topology if "image" in node]
    return list(dict.fromkeys(wanted))


def show(console: Console, *, stop: threading.Event) -> None:
    """Launch and follow until the run ends or `stop` is set; show errors, do not raise them."""
    try:
        request = executions.LaunchRequest(suite_id=SUITE)
        run_id = _launch(request, stop)
        console.print(f"[bold]{_page(run_id)}[/]", soft_wrap=True)
        terminal_view.watch(run_id, console, stop=stop)
        if not stop.is_set():
            terminal_view.print_run(executions.run_detail(run_id), console)
            console.print(
                f"\n  see the run    {_page(run_id)}\n"
                f"  launch another {launch_command()}\n"
                "  serving until Ctrl-C",
                markup=False,
                soft_wrap=True,
            )
    except PlatformError as error:
        console.print(f"[red]✗[/] {SUITE} was not launched:", end=" ")
        console.print(error.detail, markup=False, soft_wrap=True)


def _page(run_id: str) -> str:
    return f"{public_url()}/executions/{run_id}"


def launch_command() -> str:
    """Return a command that works here: `shop` needs images, and may not be installed."""
    has_images = workers.runtimes[local_runtime()].runs_images
    wanted = (_NEXT, SUITE) if has_images else (SUITE,)
    others = (suite["id"] for suite in suites.list_suites())
    suite_id = next((one for one in wanted if _is_known(one)), None) or next(others, "SUITE")
    return f"{conf.command_line()} run launch {suite_id} --watch"


def _is_known(suite_id: str) -> bool:
    try:
        return suites.find_suite(suite_id).suite_id == suite_id
    except suites.SuiteNotFound:
        return False


def _launch(request: executions.LaunchRequest, stop: threading.Event) -> str:
    """Return the id of a new run; retry until the runner is online, or raise PlatformError."""
    deadline = time.monotonic() + RUNNER_S
    while True:
        try:
            return str(executions.launch(accounts.operator(), request)["id"])
        except BackendUnavailable:
            if stop.wait(_RETRY_S) or time.monotonic() > deadline:
                raise


def left_running() -> list[str]:
    """Return a sentence for each run that the next `up` continues."""
    return [
        f"{run['id']} ({run['suiteTitle']}) has not ended: the next `up` continues it"
        for run in executions.unfinished_runs(limit=50)
    ]


class ExampleImageMissing(RuntimeError):
    """An image cannot be pulled or built; the message ends with the output of the build."""


def ensure_images(wanted: Iterable[str], builder: Path, say: Callable[[str], None]) -> None:
    """Pull or build the missing images for which `builder` has a recipe; raise ExampleImageMissing.

    Images without a recipe are left to the run. `say` gets a line about each pull and build.
    """
    try:
        known = _run(str(builder), "--list").stdout.split()
        for image in wanted:
            if image in known and _run("docker", "image", "inspect", image).returncode != 0:
                _pull_or_build(image, builder, say)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ExampleImageMissing(str(error)) from error


def _pull_or_build(image: str, builder: Path, say: Callable[[str], None]) -> None:
    say(f"pulling {image}")
    if _is_pulled(image):
        return
    say(f"{image} cannot be pulled: building a stand-in from Debian's packages")
    result = _run(str(builder), image, timeout=600)
    if result.returncode != 0:
        raise ExampleImageMissing(f"{builder} {image} failed: {result.stderr.strip()[-500:]}")


def _is_pulled(image: str) -> bool:
    try:
        return _run("docker", "pull", "-q", image, timeout=PULL_S).returncode == 0
    except subprocess.TimeoutExpired:
        return False


def _run(*command: str, timeout: float = 30) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S603 - docker and our own builder, no shell
        command, capture_output=True, text=True, check=False, timeout=timeout
    )
