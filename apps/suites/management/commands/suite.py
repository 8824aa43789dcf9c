"""`partita suite list|search|show|validate|lint|new|fmt|lock|push|pull|fork`."""

from __future__ import annotations

from typing import Any

from apps.operations.api import CommandOptions, VerbCommand
from apps.suites import api as suites
from apps.suites.evaluator.process import keep_evaluations
from apps.suites.management.verbs import checks, copies, locks, overviews, suite_files
from apps.suites.selectors import read_every_suite


class Command(VerbCommand):
    help = "List, show, validate, write, lock and share suites."
    examples = """\
  partita suite list
  partita suite search payment       in registries, the workspace and built-in modules
  partita suite show hello
  partita suite validate shop        exit code 1 and file:line:column when it is broken
  partita suite validate -o json     every suite, for a pipeline
  partita suite lint shop            what is valid but probably wrong
  partita suite new examples/oci-suites/mine --template web
  partita suite fmt --check          exit code 1 when a suite.star has another style
  partita suite lock composite       pin what it imports and loads to the present content
  partita suite lock --check         exit code 1 when a lock is missing or out of date
  partita suite fork workspace/shop:workspace ./my-shop
  partita suite push shop registry.example/team/shop:1.0.0
  partita suite push @acme/things registry.example/team/acme/things:1.0.0
  partita suite pull registry.example/team/shop:1.0.0
  partita suite pull registry.example/team/shop:1.0.0 ./shop"""

    def add_arguments(self, parser: Any) -> None:
        verbs = self.add_verbs(parser)
        for topic in (overviews, checks, suite_files, locks, copies):
            topic.add_verbs(self, verbs)
        self.add_further_verbs("suite", verbs)

    def execute_command(self, options: CommandOptions) -> int:
        """Work on a checkout without a store as well: with the profiles of the files alone."""
        if suites.use_files_without_store():
            self.stderr.write(suites.NO_STORE)
        try:
            with keep_evaluations():
                return super().execute_command(options)
        finally:
            read_every_suite()
