"""`manage.py up`: all of Partita in one process, with the first example suite."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from django.core.management.base import BaseCommand
from rich.console import Console

from apps.console import conf
from apps.console.embedded.server import PortTaken
from apps.console.embedded.up import FolderInUse, Up, lock_folder
from apps.operations.api import ExitCode, escape, report_error
from kernel.errors import PlatformError


class Command(BaseCommand):
    help = (
        "Start Partita on this machine: store, API, pages, background work and the runner in one "
        "process, then launch the suite `hello` and show it live. Ctrl-C ends it."
    )
    requires_system_checks: Any = ()

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> Any:
        return super().create_parser(
            prog_name,
            subcommand,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            epilog=(
                "environment: PORT (8090), HOST (127.0.0.1), DATA_DIR (var), DB_DRIVER (sqlite), "
                "LOCAL_RUNTIME (docker|process), ADMIN_EMAIL, ADMIN_PASSWORD, UP_DEMO=0\n\n"
                "examples:\n  manage.py up\n  PORT=8190 DATA_DIR=/tmp/partita manage.py up\n"
                "  UP_DEMO=0 LOCAL_RUNTIME=process manage.py up\n\n"
                "exit codes: 0 stopped, 2 a variable is invalid, 5 the port or the folder is in "
                "use, 6 the store is unusable, 130 stopped before it served"
            ),
            **kwargs,
        )

    def handle(self, *_args: Any, **_options: Any) -> None:
        sys.exit(_run())


def _run() -> int:
    try:
        with lock_folder(conf.data_dir()):
            return Up().run()
    except (FolderInUse, PortTaken) as error:
        Console(stderr=True, highlight=False).print(
            f"[bold red]error[/] {escape(str(error))}", soft_wrap=True
        )
        return ExitCode.CONFLICT
    except PlatformError as error:
        return report_error(error)
    except KeyboardInterrupt:  # before it served requests: nothing to drain
        return 130
