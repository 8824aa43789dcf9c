"""`partita run_watcher`: compares live values with Git until SIGTERM."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand

from kernel.commands import PROCESS_EXIT_CODES, CommandHelp
from sync_stack.watcher.process import run


class Command(CommandHelp, BaseCommand):
    help = "Compare what datasources hold with what was last applied from Git; heal where asked to."
    environment = (
        "POLL_INTERVAL (60s), HEAL_TIMEOUT (30s), ADMIN_ADDR (:9091), "
        "ORCHESTRATOR_ADDR (localhost:50051), CONFIG_PATH (config.cue), APP_ENV "
        "(development), GRPC_TLS_CERT/KEY/CA; docs/sync-watcher.md has the rest"
    )
    examples = "  CONFIG_PATH=config.cue DB_DRIVER=sqlite partita run_watcher"
    exit_codes = PROCESS_EXIT_CODES

    def handle(self, *_args: Any, **_options: Any) -> None:
        run()
