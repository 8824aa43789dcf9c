"""`manage.py run_watcher`: compares live values with Git until SIGTERM."""

from __future__ import annotations

import argparse
from typing import Any

from django.core.management.base import BaseCommand

from sync_stack.watcher.process import run


class Command(BaseCommand):
    help = "Compare what datasources hold with what was last applied from Git; heal where asked to."
    requires_system_checks: Any = ()

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> Any:
        return super().create_parser(
            prog_name,
            subcommand,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            epilog=(
                "environment: POLL_INTERVAL (60s), HEAL_TIMEOUT (30s), ADMIN_ADDR (:9091), "
                "ORCHESTRATOR_ADDR (localhost:50051), CONFIG_PATH (config.cue), APP_ENV "
                "(development), GRPC_TLS_CERT/KEY/CA; docs/sync-watcher.md has the rest\n\n"
                "example:\n  CONFIG_PATH=config.cue DB_DRIVER=sqlite manage.py run_watcher\n\n"
                "exit codes: 0 stopped, 69 the address is in use, 78 the configuration is wrong"
            ),
            **kwargs,
        )

    def handle(self, *_args: Any, **_options: Any) -> None:
        run()
