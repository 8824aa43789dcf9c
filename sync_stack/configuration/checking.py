"""Checks of a bundle's file from outside of any process: all that is wrong, and nothing started."""

from __future__ import annotations

import contextlib

from readers.diagnostics import Diagnostic
from sync_stack.configuration.conf import BundleSettings, process_environment
from sync_stack.configuration.reading import bundle_of, read_text
from sync_stack.configuration.secrets import SecretResolver, unreadable
from sync_stack.configuration.vault import VaultClient
from sync_stack.core.bundle.diagnostics import listed
from sync_stack.core.bundle.model import Bundle
from sync_stack.core.bundle.secret_use import all_secrets


def check_file(settings: BundleSettings, *, resolve: bool) -> tuple[Diagnostic, ...]:
    """Errors and warnings, by position; `resolve`: also secrets that cannot be had, anywhere."""
    reading = bundle_of(
        read_text(settings.path, name=settings.name),
        production=settings.production,
        cue_binary=settings.cue_binary,
    )
    if not resolve or reading.bundle is None:
        return reading.complaints
    return listed([*reading.complaints, *_unresolved(reading.bundle, settings.file)])


def _unresolved(bundle: Bundle, file: str) -> list[Diagnostic]:
    resolver = SecretResolver(VaultClient, variables=process_environment())
    with contextlib.closing(resolver):
        resolver.use(bundle)
        return unreadable(all_secrets(bundle), resolver, file=file, managed=True)
