"""The ports of this process: bundle, secrets, Git cache, sinks."""

from __future__ import annotations

import gc
import random
from collections.abc import Callable, Sequence
from typing import Final

from sync_stack.configuration.conf import (
    BundleSettings,
    Environment,
    bundle_settings,
    process_environment,
)
from sync_stack.configuration.process_configuration import Configuration, open_configuration
from sync_stack.configuration.startup import StartRefused
from sync_stack.core.bundle.secret_use import Process
from sync_stack.orchestrator import conf
from sync_stack.orchestrator.server.task_copies import TaskCopies
from sync_stack.orchestrator.services import counters
from sync_stack.orchestrator.services.execution.attempt import Ports
from sync_stack.repositories import Repositories
from sync_stack.repositories.schemas import Schemas
from sync_stack.sinks.open_sinks import Sinks

_GC_OBJECTS: Final = 50_000


def collect_garbage_rarely() -> None:
    """Let the garbage collector run rarely in a process that runs tasks.

    A large file is tens of thousands of values without cycles; a collection after each 700 of
    them takes a third of the CPU of such a sync.
    """
    if gc.get_threshold()[0] < _GC_OBJECTS:
        gc.freeze()
        gc.set_threshold(_GC_OBJECTS, 10, 10)


def settings_of_bundle() -> BundleSettings:
    """Raises StartRefused."""
    environment = Environment(process_environment())
    settings = bundle_settings(environment, app_env=conf.app_env())
    if environment.problems:
        raise StartRefused(environment.problems)
    return settings


def open_bundle() -> Configuration:
    """Raises StartRefused."""
    return open_configuration(settings_of_bundle(), Process.ORCHESTRATOR)


def repositories_of_process() -> Repositories:
    """Return the Git repositories of this process; `file://` is read outside production only."""
    return Repositories(
        conf.git_cache_dir(),
        max_entries=conf.git_cache_max_entries(),
        allow_file=not conf.is_production(),
        on_fetch=lambda seconds, ok: counters.count_fetch(seconds, ok=ok),
    )


def schemas_of_process(cue_binary: str) -> Schemas:
    return Schemas(
        conf.schema_cache_dir(),
        ttl_s=conf.schema_ttl_s(),
        allow_file=not conf.is_production(),
        cue_binary=cue_binary,
    )


def ports_of(configuration: Configuration, publish: Callable[[Sequence[str]], None]) -> Ports:
    copies = TaskCopies(lambda: configuration.bundle, configuration.secrets.resolve)
    return Ports(
        bundle=lambda: configuration.bundle,
        resolve=configuration.secrets.resolve,
        repositories=repositories_of_process(),
        schemas=schemas_of_process(configuration.file.settings.cue_binary),
        open_sink=Sinks(configuration.secrets.resolve),
        publish=copies.beside(publish),
        task_changed=copies,
        jitter=lambda: random.uniform(0.5, 1),  # noqa: S311 - spreads retries
    )
