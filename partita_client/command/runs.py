"""`partita run …`: runs on a server."""

from __future__ import annotations

from typing import Final

from partita_client.command import (
    run_again,
    run_launches,
    run_logs,
    run_reads,
    run_shell,
    run_timeline,
)
from partita_client.command.parser import CommandNoun

NOUN: Final = CommandNoun(
    name="run",
    text="Launch suites, look at runs and their logs, run them again, cancel them.",
    verbs=(
        *run_launches.VERBS,
        *run_reads.VERBS,
        *run_logs.VERBS,
        *run_timeline.VERBS,
        *run_again.VERBS,
        *run_shell.VERBS,
    ),
    examples="""\
  partita run launch hello --watch
  partita run launch shop --profile broken.yaml --wait --timeout 5m
  partita run launch shop -o json          the created run, at once
  partita run list --status failed -o wide
  partita run why run-0123456789ab         what failed, why, and what changed
  partita run watch run-0123456789ab       live, from the first line on
  partita run logs run-0123456789ab --follow --source api
  partita run logs run-0123456789ab --failed   the failed steps alone
  partita run rerun run-0123456789ab --failed --watch
  partita run timeline run-0123456789ab    what it waited for, and which steps took its time
  partita run cancel run-0123456789ab --reason "wrong branch"
  partita run download run-0123456789ab --to reports
  partita run keep run-0123456789ab --for 1h     or --end
  partita run shell run-0123456789ab api         a terminal in a step; also … api -- redis-cli
  partita run again run-0123456789ab seed --env BREAK=no   one step, in the kept environment
an id may also be the address of the run's page""",
)
