"""The configuration of one process: the bundle in use and the secrets that it names."""

from __future__ import annotations

from dataclasses import dataclass

from sync_stack.configuration.bundle_file import BundleFile
from sync_stack.configuration.conf import BundleSettings, process_environment
from sync_stack.configuration.secrets import SecretResolver, needs_of
from sync_stack.configuration.vault import VaultClient
from sync_stack.core.bundle.model import Bundle
from sync_stack.core.bundle.secret_use import Process


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """Take `bundle` once for each unit of work: the next look may give another one."""

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

    It does not watch the file yet: call `file.watch()`, and `file.reload_on_hangup()`.
    """
    secrets = SecretResolver(VaultClient, variables=process_environment())
    needs = needs_of(process, secrets, file=settings.file)
    return Configuration(file=BundleFile.opened(settings, needs), secrets=secrets)
