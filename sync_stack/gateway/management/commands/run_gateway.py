"""`partita run_gateway`: serves webhooks until SIGTERM."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand

from kernel.commands import PROCESS_EXIT_CODES, CommandHelp
from sync_stack.gateway.process import run


class Command(CommandHelp, BaseCommand):
    help = "Take webhooks of Git platforms, verify them and hand them to the orchestrator by gRPC."
    environment = (
        "GATEWAY_ADDR (:5657), ADMIN_ADDR (:9090), ORCHESTRATOR_ADDR "
        "(localhost:50051), CONFIG_PATH (config.cue), APP_ENV (test), LOG_LEVEL (INFO), "
        "GATEWAY_TLS_CERT/KEY, GRPC_TLS_CERT/KEY/CA; docs/sync-gateway.md has the rest"
    )
    examples = "  CONFIG_PATH=config.cue APP_ENV=development partita run_gateway"
    exit_codes = PROCESS_EXIT_CODES

    def handle(self, *_args: Any, **_options: Any) -> None:
        run()
