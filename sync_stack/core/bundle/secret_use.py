"""Which secrets of a bundle a process uses: it resolves no others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from enum import StrEnum
from typing import Any

from sync_stack.core.bundle.model import Bundle
from sync_stack.core.bundle.platforms import Platform
from sync_stack.core.bundle.secrets import SecretRef


class Process(StrEnum):
    """The process that reads the bundle. ORCHESTRATOR: its server, workers and commands."""

    GATEWAY = "gateway"
    ORCHESTRATOR = "orchestrator"
    WATCHER = "watcher"


def secrets_used(bundle: Bundle, process: Process) -> tuple[SecretRef, ...]:
    """Return the secrets of a process, and the credentials of the managers that hold them.

    The gateway: webhook keys and its redis; the watcher: datasources; else all but webhook keys.
    """
    used = tuple(_of_process(bundle, process))
    names = {ref.manager for ref in used if ref.manager}
    if process is Process.ORCHESTRATOR:
        names = {manager.name for manager in bundle.secret_managers}
    managers = [bundle.secret_manager(name) for name in sorted(names)]
    return (*used, *refs_in([manager.auth for manager in managers]))


def all_secrets(bundle: Bundle) -> tuple[SecretRef, ...]:
    return tuple(refs_in(bundle))


def texts_to_mask(bundle: Bundle) -> Iterator[str]:
    """Yield plain values, and passwords in connection strings."""
    for ref in refs_in(bundle):
        if ref.value and ref.masked:
            yield ref.value
    for datasource in bundle.datasources:
        yield from datasource.options.texts_to_mask()


def gateway_redis(bundle: Bundle) -> str:
    """Return the datasource of replay records; empty: memory."""
    return bundle.gateway_nonce_datasource or bundle.task_broker_datasource


def webhook_secrets(platform: Platform) -> tuple[SecretRef, ...]:
    found = (platform.secret, platform.secret_previous, platform.signing_secret)
    return tuple(ref for ref in found if ref)


def _of_process(bundle: Bundle, process: Process) -> Iterator[SecretRef]:
    match process:
        case Process.GATEWAY:
            for platform in bundle.platforms:
                yield from webhook_secrets(platform)
            if name := gateway_redis(bundle):
                yield from refs_in(bundle.datasource(name))
        case Process.WATCHER:
            yield from refs_in(bundle.datasources)
        case Process.ORCHESTRATOR:
            yield from refs_in(bundle.datasources)
            for platform in bundle.platforms:
                webhook = {id(ref) for ref in webhook_secrets(platform)}
                yield from (ref for ref in refs_in(platform) if id(ref) not in webhook)


def refs_in(value: Any) -> Iterator[SecretRef]:
    """Yield every SecretRef inside a value of the model."""
    if isinstance(value, SecretRef):
        yield value
    elif is_dataclass(value):
        for known in fields(value):
            yield from refs_in(getattr(value, known.name))
    elif isinstance(value, tuple | list):
        for each in value:
            yield from refs_in(each)
