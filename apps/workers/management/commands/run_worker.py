"""`partita run_worker`: steps of remote-agent backends, anywhere; it needs no store."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import BaseCommand, CommandError, CommandParser

from apps.workers import conf
from kernel.commands import CommandHelp
from kernel.registry import UnknownPlugin
from worker.process import Worker, WorkerFailed, WorkerInUse
from worker.runtimes import runtimes


class Command(CommandHelp, BaseCommand):
    help = (
        "Runs steps for the control plane at AGENT_CONTROL_PLANE_URL, of the backends that "
        "AGENT_BACKENDS names. SIGTERM lets running jobs end first, a second one does not. "
    )
    examples = """\
  AGENT_SHARED_SECRET_FILE=secret AGENT_CONTROL_PLANE_URL=https://partita.example \\
    AGENT_BACKENDS=edge partita run_worker"""
    exit_codes = "exit codes: 0 stopped, 1 it cannot start"

    def add_arguments(self, parser: CommandParser) -> None:
        known = " or ".join(runtimes)
        parser.add_argument("--runtime", default="", help=f"{known}; else LOCAL_RUNTIME")

    def handle(self, **options: Any) -> None:
        try:
            settings = conf.worker_settings()
            Worker(
                settings,
                folder=conf.state_dir() / "agents" / settings.agent_id,
                runtime=options["runtime"] or conf.local_runtime(),
                pull_policy=conf.pull_policy(),
                helper_image=conf.init_image(),
                rules=conf.launch_rules(),
            ).run()
        except (WorkerInUse, WorkerFailed, UnknownPlugin, ImproperlyConfigured) as error:
            raise CommandError(str(error)) from error
