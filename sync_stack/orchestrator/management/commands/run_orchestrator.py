"""`partita run_orchestrator`: accept deliveries over gRPC, show tasks over HTTP."""

from __future__ import annotations

import asyncio
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from kernel.commands import PROCESS_EXIT_CODES, CommandHelp
from sync_stack.configuration.startup import refusing
from sync_stack.orchestrator.server.ports import open_bundle
from sync_stack.orchestrator.server.process import serve
from sync_stack.orchestrator.server.startup import log_first_start, migrate, refuse_unsafe


class Command(CommandHelp, BaseCommand):
    help = (
        "Serve gRPC (ORCHESTRATOR_GRPC_ADDR, :50051) and HTTP (ORCHESTRATOR_HTTP_ADDR, :8000) and "
        "run the sweeps. Without a broker it runs tasks itself. "
    )
    examples = "  CONFIG_PATH=config.cue DB_DRIVER=sqlite partita run_orchestrator --migrate"
    exit_codes = PROCESS_EXIT_CODES

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--migrate",
            action="store_true",
            help="first create the tables, once the store answers (within 60 s)",
        )

    def handle(self, *_args: Any, **options: Any) -> None:
        with refusing():
            log_first_start()
            refuse_unsafe()
            configuration = open_bundle()
            if options["migrate"]:
                migrate()
            asyncio.run(serve(configuration))
