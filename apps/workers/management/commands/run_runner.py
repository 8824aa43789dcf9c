"""`manage.py run_runner`: steps of the local backends, beside the store."""

from __future__ import annotations

import signal
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from apps.observability.api import exported_telemetry
from apps.workers import conf
from apps.workers.runner import Runner, RunnerInUse
from kernel.registry import UnknownPlugin
from worker.runtimes import runtimes


class Command(BaseCommand):
    help = (
        "Runs the steps of the backends of kind local until SIGTERM or SIGINT; containers are left "
        "to the next runner. Example: LOCAL_RUNTIME=process manage.py run_runner"
    )

    def add_arguments(self, parser: CommandParser) -> None:
        known = " or ".join(runtimes)
        parser.add_argument("--runtime", default="", help=f"{known}; else LOCAL_RUNTIME")

    def handle(self, **options: Any) -> None:
        try:
            runner = Runner(options["runtime"] or conf.local_runtime())
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, lambda *_: runner.stop())
            with exported_telemetry():
                runner.run()
        except (RunnerInUse, UnknownPlugin) as error:
            raise CommandError(str(error)) from error
