"""The commands beside the store, as Django finds them."""

from __future__ import annotations

import sys

from django.conf import settings
from django.core.management import ManagementUtility, get_commands
from django.core.management.base import BaseCommand

from kernel.exit_codes import ExitCode
from partita_client.command.parser import hint_at


class CommandUtility(ManagementUtility):
    """Runs a command; a word that is none gets the words and the exit code of the client."""

    def fetch_command(self, subcommand: str) -> BaseCommand:
        """Return a command; end with ExitCode.USAGE where there is none of this name."""
        known = list(get_commands())
        if subcommand in known or not settings.configured:
            return super().fetch_command(subcommand)
        hint = hint_at(subcommand, known)
        sys.stderr.write(f"error: there is no command {subcommand!r}{hint}\n")
        sys.stderr.write(f"next: {self.prog_name} --help, or {self.prog_name} admin\n")
        sys.exit(ExitCode.USAGE)
