"""`partita up`: all of Partita in one process, with the first example suite."""

from __future__ import annotations

from rich.console import Console

from apps.console import conf
from apps.console.embedded.server import AddressTaken
from apps.console.embedded.up import FolderInUse, Up, lock_folder
from apps.operations.api import CommandOptions, ExitCode, PlatformCommand, escape
from apps.workers.api import runtimes


class Command(PlatformCommand):
    help = (
        "Start Partita on this machine: store, API, pages, background work and the runner in one "
        "process, then launch the suite `hello` and show it live. Ctrl-C ends it."
    )
    environment = (
        "PORT (8090), HOST (127.0.0.1), DATA_DIR (var), DB_DRIVER (sqlite), "
        f"LOCAL_RUNTIME ({'|'.join(runtimes)}), ADMIN_EMAIL, ADMIN_PASSWORD, UP_DEMO=0"
    )
    examples = """\
  partita up
  PORT=8190 DATA_DIR=/tmp/partita partita up
  UP_DEMO=0 LOCAL_RUNTIME=process partita up"""
    exit_codes = (
        "exit codes: 0 stopped, 2 a variable is invalid, 5 the port or the folder is in "
        "use, 6 the store is unusable, 130 stopped before it served"
    )

    def execute_command(self, _options: CommandOptions) -> int:
        try:
            with lock_folder(conf.data_dir()):
                return Up().run()
        except (FolderInUse, AddressTaken) as error:
            Console(stderr=True, highlight=False).print(
                f"[bold red]error[/] {escape(str(error))}", soft_wrap=True
            )
            return ExitCode.CONFLICT
