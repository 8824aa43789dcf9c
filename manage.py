#!/usr/bin/env python
"""Partita's commands. `partita help`, or `python manage.py help`, lists them."""

from __future__ import annotations

import atexit
import faulthandler
import gc
import os
import signal
import sys
import time
from pathlib import Path

SYNC_COMMANDS = ("run_orchestrator", "run_watcher", "sync")
# Settings that know the commands of one part only.
NARROW = ("platform_site.settings.gateway", "platform_site.settings.sync")


def settings_module(command: str, given: str = "") -> str:
    """The settings of a command, or those `given` by DJANGO_SETTINGS_MODULE.

    A narrow one that is given for some commands, perhaps exported for a whole shell, does not
    hide the others: they get their own.
    """
    if given and (given not in NARROW or _is_of_django(command)):
        return given
    return _own_settings(command)


def _is_of_django(command: str) -> bool:
    """`migrate`, `check` …: whatever settings are given, they have it."""
    from django.core import management

    # not get_commands: what it finds before the settings are known is all it ever finds
    return command in management.find_commands(management.__path__[0])


def _own_settings(command: str) -> str:
    """Commands of the sync stack need no account, no page and no JWT_SECRET."""
    if command == "run_gateway":
        return "platform_site.settings.gateway"
    if command in SYNC_COMMANDS:
        return "platform_site.settings.sync"
    return "platform_site.settings.local"


def suites_folder() -> Path:
    """SUITES_DIR, for a command that runs without the settings; raise ProjectFileInvalid."""
    from platform_site.settings import env, project
    from readers.project_file import project_of_working_folder

    here = Path(__file__).resolve().parent
    env.load_dotenv_files(here / ".env", here.parent / ".env")
    if found := project_of_working_folder():
        project.fill_environment(found)
    return Path(env.text("SUITES_DIR", str(here / "examples" / "oci-suites")))


def serve_mocks(arguments: list[str]) -> int:
    """`mock serve`: it serves before Django would be imported."""
    began = time.monotonic()
    gc.disable()  # until it serves
    from mocks.standalone.command import Command
    from readers.project_file import ProjectFileInvalid

    try:
        return Command("partita mock serve", suites_folder, began=began).run(arguments)
    except ProjectFileInvalid as error:
        sys.stderr.write(f"error: {error}\n")
        return 2


def main() -> None:
    """Run the command of `sys.argv`, as `partita` and as `python manage.py`."""
    try:
        run_command()
    except KeyboardInterrupt:  # before the command could look after it
        sys.exit(130)


def run_command() -> None:
    faulthandler.register(signal.SIGUSR1)  # what each thread does, for a process that hangs
    gc.set_threshold(50_000)  # imports make no garbage, and to look for it takes time
    from platform_site import command_line

    if (said := command_line.answer(sys.argv[1:])) is not None:
        print(said)  # noqa: T201
        return
    if refused := command_line.refusal(sys.argv[1:]):
        sys.stderr.write(refused)
        sys.exit(2)
    words = ["help"] if sys.argv[1:3] == ["help", "--all"] else sys.argv[1:]
    if sys.argv[1:3] == ["mock", "serve"]:
        sys.exit(serve_mocks(sys.argv[3:]))
    atexit.register(gc.freeze)  # the process ends: a last collection, a tenth of a short command
    given = os.environ.get("DJANGO_SETTINGS_MODULE", "")  # noqa: TID251
    module = settings_module(sys.argv[1] if len(sys.argv) > 1 else "", given)
    os.environ["DJANGO_SETTINGS_MODULE"] = module  # noqa: TID251
    from django.core.exceptions import ImproperlyConfigured

    from platform_site.command_utility import CommandUtility

    try:
        CommandUtility([command_line.PROGRAM, *words]).execute()
    except ImproperlyConfigured as error:
        sys.stderr.write(f"error: {error}\n")
        sys.exit(2 if module.endswith(".local") else 78)


if __name__ == "__main__":
    main()
