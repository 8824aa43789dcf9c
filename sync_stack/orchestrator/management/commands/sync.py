"""`partita sync VERB`: configuration from Git, beside the store."""

from __future__ import annotations

import argparse
import textwrap
from typing import Any, Final

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import Error as StoreError
from django.db import ProgrammingError, connection

from kernel.commands import CommandHelp, ExitCode
from sync_stack.orchestrator.management.base import SyncVerb
from sync_stack.orchestrator.management.verbs.approve_prune import ApprovePruneVerb
from sync_stack.orchestrator.management.verbs.check import CheckVerb
from sync_stack.orchestrator.management.verbs.drift import DriftVerb
from sync_stack.orchestrator.management.verbs.history import HistoryVerb
from sync_stack.orchestrator.management.verbs.origins import BlameVerb
from sync_stack.orchestrator.management.verbs.orphans import OrphansVerb
from sync_stack.orchestrator.management.verbs.plan import PlanVerb
from sync_stack.orchestrator.management.verbs.show import ShowVerb, WatchVerb
from sync_stack.orchestrator.management.verbs.status import StatusVerb
from sync_stack.orchestrator.management.verbs.trigger import TriggerVerb

VERBS: Final[tuple[SyncVerb, ...]] = (
    CheckVerb(),
    PlanVerb(),
    TriggerVerb(),
    StatusVerb(),
    HistoryVerb(),
    ShowVerb(),
    WatchVerb(),
    DriftVerb(),
    BlameVerb(),
    OrphansVerb(),
    ApprovePruneVerb(),
)


class Command(CommandHelp, BaseCommand):
    help = (
        "Keep configuration equal to Git: check the bundle, plan and trigger syncs, and see what "
        "each destination holds. It works on the store and the bundle of the orchestrator."
    )
    examples = """\
  partita sync check config.cue
  partita sync plan --rule shop
  partita sync status
  partita sync history --state failed"""
    exit_codes = (
        "exit codes: 0 success, 1 it cannot be done, or some of it failed, 2 usage, 3 not found,\n"
        "  6 unavailable, 78 wrong configuration"
    )

    def add_arguments(self, parser: CommandParser) -> None:
        verbs = parser.add_subparsers(metavar="VERB")
        parser.set_defaults(verb=None)
        for verb in VERBS:
            own = verbs.add_parser(
                verb.name,
                help=verb.text,
                description=textwrap.fill(verb.help, 80),
                epilog=f"examples:\n{verb.examples}\n\n{self.exit_codes}",
                formatter_class=argparse.RawDescriptionHelpFormatter,
            )
            own.set_defaults(verb=verb)
            verb.add_arguments(own)

    def handle(self, *_args: Any, **options: Any) -> None:
        verb: SyncVerb | None = options["verb"]
        if verb is None:
            names = ", ".join(each.name for each in VERBS)
            raise CommandError(f"name a verb: {names}", returncode=ExitCode.USAGE)
        verb.run(options, self.stdout, self.stderr)

    def execute(self, *args: Any, **options: Any) -> str | None:
        """Execute the command; a store that cannot be used gives one sentence and exit code 6."""
        try:
            return super().execute(*args, **options)
        except ProgrammingError:
            raise CommandError(
                "the store has no tables of the sync: run partita migrate",
                returncode=ExitCode.UNAVAILABLE,
            ) from None
        except StoreError as error:
            raise CommandError(
                f"the store ({connection.vendor}) cannot be used ({type(error).__name__}): name "
                "the store of the orchestrator by DB_DRIVER and its variables, or ask its HTTP "
                "API: PARTITA_SYNC_URL=https://sync.example.com",
                returncode=ExitCode.UNAVAILABLE,
            ) from None
