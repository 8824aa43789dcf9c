"""`partita run_gateway`: serves webhooks until SIGTERM."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand

from kernel.commands import HIDDEN_OPTIONS, PROCESS_EXIT_CODES, help_words
from sync_stack.gateway.process import run


class Command(BaseCommand):
    help = "Take webhooks of Git platforms, verify them and hand them to the orchestrator by gRPC."
    requires_system_checks: Any = ()

    suppressed_base_arguments = HIDDEN_OPTIONS
    environment = (
        "GATEWAY_ADDR (:5657), ADMIN_ADDR (:9090), ORCHESTRATOR_ADDR "
        "(localhost:50051), CONFIG_PATH (config.cue), APP_ENV (test), LOG_LEVEL (INFO), "
        "GATEWAY_TLS_CERT/KEY, GRPC_TLS_CERT/KEY/CA; docs/sync-gateway.md has the rest"
    )
    examples = "  CONFIG_PATH=config.cue APP_ENV=development partita run_gateway"

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> Any:
        words = help_words(
            examples=self.examples, exit_codes=PROCESS_EXIT_CODES, environment=self.environment
        )
        return super().create_parser(prog_name, subcommand, **words, **kwargs)

    def handle(self, *_args: Any, **_options: Any) -> None:
        run()
