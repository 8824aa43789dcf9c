"""`partita run launch|rerun|list|show|…`: runs in this machine's store."""

from __future__ import annotations

from typing import Any

from apps.executions.management.verbs import (
    again,
    artifacts,
    keep,
    launch,
    log_lines,
    results,
    timeline,
)
from apps.operations.api import VerbCommand


class Command(VerbCommand):
    help = "Launch runs and look at them. A running `up`, or a runner and a worker, does the work."
    examples = """\
  partita run launch hello --watch
  partita run launch shop --profile broken.yaml --watch --timeout 5m
  partita run launch shop -o json          the created run, at once
  partita run list --status Failed
  partita run why run-0123456789ab         what failed, and why
  partita run logs run-0123456789ab --follow --source api
  partita run logs run-0123456789ab --regex 'row 39\\d of'
  partita run logs run-0123456789ab --failed   the failed steps alone
  partita run cancel run-0123456789ab --reason "wrong branch"
  partita run rerun run-0123456789ab --failed --watch   what failed, and what that needs
  partita run rerun run-0123456789ab --step check --dry-run
  partita run show run-0123456789ab --since-green
  partita run artifacts run-0123456789ab --download reports
  partita run timeline run-0123456789ab    what it waited for, and which steps took its time
  partita run launch shop --profile broken.yaml --keep 30m --watch   look inside after a failure
  partita run keep run-0123456789ab --for 1h     or --end
  partita run shell run-0123456789ab seed        a terminal in a step of a kept run
  partita run shell run-0123456789ab store -- redis-cli
  partita run again run-0123456789ab seed --env BREAK=no   one step, in the kept environment
  partita run again run-0123456789ab seed --files .        with the files of this folder
an id may also be the address of the run's page"""

    def add_arguments(self, parser: Any) -> None:
        verbs = self.add_verbs(parser)
        topics = (launch, results, log_lines, timeline, artifacts, keep, again)
        for topic in topics:  # each in a module of its own
            topic.add_verbs(self, verbs)
        self.add_further_verbs("run", verbs)
