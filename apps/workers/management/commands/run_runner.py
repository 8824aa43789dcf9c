"""`partita run_runner`: steps of the local backends, beside the store."""

from __future__ import annotations

import signal
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import BaseCommand, CommandError, CommandParser

from apps.executions.api import require_artifact_storage
from apps.observability.api import exported_telemetry
from apps.operations.api import DatastoreUnavailable, require_whole_store
from apps.workers import conf
from apps.workers.runner import Runner, RunnerInUse
from kernel.commands import CommandHelp
from kernel.registry import UnknownPlugin
from worker.runtimes import runtimes


class Command(CommandHelp, BaseCommand):
    help = (
        "Runs the steps of the backends of kind local until SIGTERM or SIGINT; containers are left "
        "to the next runner."
    )
    examples = "  LOCAL_RUNTIME=process partita run_runner"
    exit_codes = "exit codes: 0 stopped, 1 it cannot start"
    requires_system_checks = "__all__"

    def add_arguments(self, parser: CommandParser) -> None:
        known = " or ".join(runtimes)
        parser.add_argument("--runtime", default="", help=f"{known}; else LOCAL_RUNTIME")

    def handle(self, **options: Any) -> None:
        try:
            require_whole_store()
            require_artifact_storage()
            runner = Runner(options["runtime"] or conf.local_runtime())
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, lambda *_: runner.stop())
            with exported_telemetry():
                runner.run()
        except (DatastoreUnavailable, ImproperlyConfigured, RunnerInUse, UnknownPlugin) as error:
            raise CommandError(str(error)) from error
