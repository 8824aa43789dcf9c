"""The configuration of a process: its bundle and the resolver of its secrets."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

from readers.diagnostics import Diagnostic
from sync_stack.configuration.bundle_file import BundleFile, bundle_of, read_text
from sync_stack.configuration.conf import BundleSettings, process_environment
from sync_stack.configuration.secrets import SecretResolver, bundle_hooks, unreadable
from sync_stack.configuration.vault import VaultClient
from sync_stack.core.bundle.diagnostics import sort_diagnostics
from sync_stack.core.bundle.model import Bundle
from sync_stack.core.bundle.secret_use import Process, all_secrets


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """Read `bundle` once for each unit of work: a reload may replace it at any time."""

    file: BundleFile
    secrets: SecretResolver

    @property
    def bundle(self) -> Bundle:
        return self.file.bundle

    def close(self) -> None:
        self.file.stop()
        self.secrets.close()


def open_configuration(settings: BundleSettings, process: Process) -> Configuration:
    """Load the bundle and read the process's own secrets. Raises StartRefused.

    The file is not watched yet: call `file.watch()`, and `file.wake()` at SIGHUP.
    """
    secrets = SecretResolver(VaultClient, variables=process_environment())
    needs = bundle_hooks(process, secrets, file=settings.file)
    return Configuration(file=BundleFile.load(settings, needs), secrets=secrets)


def check_file(settings: BundleSettings, *, resolve: bool) -> tuple[Diagnostic, ...]:
    """Return errors and warnings by position; `resolve` also reports unresolvable secrets."""
    reading = bundle_of(
        read_text(settings.path, name=settings.name),
        production=settings.production,
        cue_binary=settings.cue_binary,
    )
    if not resolve or reading.bundle is None:
        return reading.complaints
    resolver = SecretResolver(VaultClient, variables=process_environment())
    with contextlib.closing(resolver):
        resolver.use(reading.bundle)
        refs = all_secrets(reading.bundle)
        unresolved = unreadable(refs, resolver, file=settings.file, managed=True)
    return sort_diagnostics([*reading.complaints, *unresolved])
