"""`partita run_watcher`: compares live values with Git until SIGTERM."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand

from kernel.commands import HIDDEN_OPTIONS, PROCESS_EXIT_CODES, help_words
from sync_stack.watcher.process import run


class Command(BaseCommand):
    help = "Compare what datasources hold with what was last applied from Git; heal where asked to."
    requires_system_checks: Any = ()

    suppressed_base_arguments = HIDDEN_OPTIONS
    environment = (
        "POLL_INTERVAL (60s), HEAL_TIMEOUT (30s), ADMIN_ADDR (:9091), "
        "ORCHESTRATOR_ADDR (localhost:50051), CONFIG_PATH (config.cue), APP_ENV "
        "(development), GRPC_TLS_CERT/KEY/CA; docs/sync-watcher.md has the rest"
    )
    examples = "  CONFIG_PATH=config.cue DB_DRIVER=sqlite partita run_watcher"

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> Any:
        words = help_words(
            examples=self.examples, exit_codes=PROCESS_EXIT_CODES, environment=self.environment
        )
        return super().create_parser(prog_name, subcommand, **words, **kwargs)

    def handle(self, *_args: Any, **_options: Any) -> None:
        run()
