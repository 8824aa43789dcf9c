"""Settings of the watcher, from its environment (reference: sync-stack 6.7)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from sync_stack.configuration.conf import BundleSettings, Environment, bundle_settings
from sync_stack.configuration.startup import StartRefused
from sync_stack.configuration.telemetry import ExportSettings, read_export_settings
from sync_stack.rpc.tls import CERT, KEY, TlsFiles, client_files, missing_pair_problem

_DAY_S: Final = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class WatcherSettings:
    """`admin` is host (empty: every interface) and port."""

    admin: tuple[str, int]
    orchestrator: str
    app_env: str
    bundle: BundleSettings
    poll_interval_s: float = 60.0
    heal_timeout_s: float = 30.0
    heal_task_timeout_s: float = 300.0
    concurrency: int = 4
    log_values: bool = False
    grpc_tls: TlsFiles | None = None
    token: str = ""
    exports: ExportSettings = field(default_factory=ExportSettings)
    version: str = "dev"


def read_settings(variables: Mapping[str, str]) -> WatcherSettings:
    """Raises StartRefused with a line for everything that is wrong."""
    environment = Environment(variables)
    app_env = environment.app_env()
    settings = WatcherSettings(
        admin=environment.address("ADMIN_ADDR", ":9091"),
        orchestrator=environment.text("ORCHESTRATOR_ADDR", "localhost:50051"),
        app_env=app_env,
        bundle=bundle_settings(environment, app_env=app_env),
        poll_interval_s=environment.duration_s("POLL_INTERVAL", "60s", low=1, high=_DAY_S),
        heal_timeout_s=environment.duration_s("HEAL_TIMEOUT", "30s", low=0.1, high=600),
        heal_task_timeout_s=environment.duration_s("HEAL_TASK_TIMEOUT", "5m", low=1, high=_DAY_S),
        concurrency=environment.integer("WATCHER_CONCURRENCY", 4, low=1, high=64),
        log_values=environment.flag("DRIFT_LOG_VALUES", default=False),
        grpc_tls=client_files(environment),
        token=environment.text("GRPC_SHARED_TOKEN"),
        exports=read_export_settings(environment, service="watcher"),
        version=environment.text("PARTITA_VERSION", "dev"),
    )
    problems = list(environment.problems)
    if app_env == "production" and settings.grpc_tls is None:
        problems.append(
            missing_pair_problem(environment, CERT, KEY, what="the watcher's client certificate")
        )
    if problems:
        raise StartRefused(problems)
    return settings
