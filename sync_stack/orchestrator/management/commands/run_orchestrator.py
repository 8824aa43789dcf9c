"""`manage.py run_orchestrator`: takes deliveries over gRPC, answers about tasks over HTTP."""

from __future__ import annotations

import asyncio
from typing import Any

from django.core.management.base import BaseCommand

from sync_stack.configuration.startup import refusing
from sync_stack.orchestrator.serving.ports import open_bundle
from sync_stack.orchestrator.serving.process import refuse_unsafe, serve


class Command(BaseCommand):
    help = (
        "Serve gRPC (ORCHESTRATOR_GRPC_ADDR, :50051) and HTTP (ORCHESTRATOR_HTTP_ADDR, :8000) and "
        "run the sweeps. Without a broker it executes tasks itself. "
        "Example: CONFIG_PATH=config.cue DB_DRIVER=sqlite manage.py run_orchestrator"
    )
    requires_system_checks: Any = ()

    def handle(self, *_args: Any, **_options: Any) -> None:
        with refusing():
            refuse_unsafe()
            asyncio.run(serve(open_bundle()))
