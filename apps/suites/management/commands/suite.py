"""`manage.py suite list|search|show|validate|lint|new|fmt|lock|push|pull|fork`."""

from __future__ import annotations

from typing import Any

from apps.operations.api import VerbCommand
from apps.suites import api as suites
from apps.suites.management.verbs import authoring, checks, copies, listing, locks


class Command(VerbCommand):
    help = "List, show, validate, write, lock and share suites."
    examples = """\
  manage.py suite list
  manage.py suite search payment       in registries, the workspace and built-in modules
  manage.py suite show hello
  manage.py suite validate shop        exit code 1 and file:line:column when it is broken
  manage.py suite validate -o json     every suite, for a pipeline
  manage.py suite lint shop            what is legal but most likely wrong
  manage.py suite new examples/oci-suites/mine --template web
  manage.py suite fmt --check          exit code 1 when a suite.star has another style
  manage.py suite lock composite       pin what it imports and loads to the present content
  manage.py suite lock --check         exit code 1 when a lock is missing or out of date
  manage.py suite fork workspace/shop:workspace ./my-shop
  manage.py suite push shop registry.example/team/shop:1.0.0
  manage.py suite push @acme/things registry.example/team/acme/things:1.0.0
  manage.py suite pull registry.example/team/shop:1.0.0
  manage.py suite pull registry.example/team/shop:1.0.0 ./shop"""

    def add_arguments(self, parser: Any) -> None:
        verbs = parser.add_subparsers(required=True, metavar="VERB")
        for topic in (listing, checks, authoring, locks, copies):
            topic.add_verbs(self, verbs)
        self.add_further_verbs("suite", verbs)

    def execute_command(self, options: dict[str, Any]) -> int:
        """Work on a checkout without a store as well: with the profiles of the files alone."""
        suites.use_files_without_store()
        return super().execute_command(options)
