"""`manage.py run_gateway`: serves webhooks until SIGTERM."""

from __future__ import annotations

import argparse
from typing import Any

from django.core.management.base import BaseCommand

from sync_stack.gateway.process import run


class Command(BaseCommand):
    help = "Take webhooks of Git platforms, verify them and hand them to the orchestrator by gRPC."
    requires_system_checks: Any = ()

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> Any:
        return super().create_parser(
            prog_name,
            subcommand,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            epilog=(
                "environment: GATEWAY_ADDR (:5657), ADMIN_ADDR (:9090), ORCHESTRATOR_ADDR "
                "(localhost:50051), CONFIG_PATH (config.cue), APP_ENV (test), LOG_LEVEL (INFO), "
                "GATEWAY_TLS_CERT/KEY, GRPC_TLS_CERT/KEY/CA; docs/sync-gateway.md has the rest\n\n"
                "example:\n  CONFIG_PATH=config.cue APP_ENV=development manage.py run_gateway\n\n"
                "exit codes: 0 stopped, 69 an address is in use or the inbox cannot be used, "
                "78 the configuration is wrong"
            ),
            **kwargs,
        )

    def handle(self, *_args: Any, **_options: Any) -> None:
        run()
