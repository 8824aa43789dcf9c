"""`partita keys status|reencrypt`."""

from __future__ import annotations

import sys
import time
from typing import Any, Final

from apps.operations.commands import CommandOptions, VerbCommand, print_json, print_table
from apps.operations.services.encryption_keys import Reencryption, reencrypt, report_keys
from kernel.commands import ExitCode

_PROGRESS_S: Final = 1.0
_MOST_PLACES: Final = 20


class Command(VerbCommand):
    help = "Show which encryption key encrypts what, and replace the old ones."
    environment = (
        "SETTINGS_ENCRYPTION_KEY (derived from JWT_SECRET), SETTINGS_PREVIOUS_ENCRYPTION_KEYS"
    )
    examples = """\
  partita keys status                how many secrets each key encrypts; keys by fingerprint
  partita keys reencrypt --dry-run   what would be re-encrypted, and what no key decrypts
  partita keys reencrypt             encrypt everything with the current key"""

    def add_arguments(self, parser: Any) -> None:
        verbs = self.add_verbs(parser)
        self.add_verb(verbs, "status", show_status, "show which key encrypts what")
        anew = self.add_verb(verbs, "reencrypt", reencrypt_all, "encrypt with the current key")
        anew.add_argument("--dry-run", action="store_true", help="count, and change nothing")


def show_status(options: CommandOptions) -> int:
    """Exit with 1 when something cannot be decrypted."""
    report = report_keys()
    lost = [f"{kind}: {place}" for kind, all_ in report.unreadable.items() for place in all_]
    if options["output"] == "json":
        keys = [
            {
                "fingerprint": key.fingerprint,
                "origin": key.origin,
                "current": key.is_current,
                "texts": dict(key.texts),
            }
            for key in report.keys
        ]
        print_json({"keys": keys, "unreadable": {k: list(v) for k, v in report.unreadable.items()}})
    else:
        kinds = list(report.unreadable)
        rows = [
            (
                f"{key.fingerprint}{' (current)' if key.is_current else ''}",
                key.origin,
                *(str(key.texts[kind]) for kind in kinds),
            )
            for key in report.keys
        ]
        rows.append(("no known key", "", *(str(len(report.unreadable[kind])) for kind in kinds)))
        print_table(("KEY", "FROM", *(kind.upper() for kind in kinds)), rows)
        _print_places("no known key decrypts", lost)
    return ExitCode.ERROR if lost else ExitCode.OK


def reencrypt_all(options: CommandOptions) -> int:
    """Exit with 1 when something is left that the current key does not decrypt."""
    is_dry = options["dry_run"]
    outcomes = list(reencrypt(dry_run=is_dry, on_row=_Progress().show))
    if options["output"] == "json":
        print_json({"dryRun": is_dry, "kinds": [_as_document(each) for each in outcomes]})
    else:
        rows = [
            (each.kind, str(each.replaced), str(each.current), str(len(each.unreadable)))
            for each in outcomes
        ]
        new = "WOULD BE ENCRYPTED ANEW" if is_dry else "ENCRYPTED ANEW"
        print_table(("KIND", new, "CURRENT BEFORE", "UNREADABLE"), rows)
        _print_places("no known key decrypts", [p for one in outcomes for p in one.unreadable])
        failures = [f"{place}: {why}" for one in outcomes for place, why in one.failures]
        _print_places("not re-encrypted", failures)
    return ExitCode.OK if all(each.is_complete for each in outcomes) else ExitCode.ERROR


class _Progress:
    """Says on stderr, once a second, how far a long run is."""

    def __init__(self) -> None:
        self._said_at = time.monotonic()

    def show(self, outcome: Reencryption) -> None:
        if time.monotonic() - self._said_at >= _PROGRESS_S:
            self._said_at = time.monotonic()
            done = outcome.replaced + outcome.current
            sys.stderr.write(f"{outcome.kind}: {done} read, {outcome.replaced} re-encrypted\n")


def _as_document(outcome: Reencryption) -> dict[str, object]:
    return {
        "kind": outcome.kind,
        "encryptedAnew": outcome.replaced,
        "currentBefore": outcome.current,
        "unreadable": outcome.unreadable,
        "failures": [{"place": place, "reason": reason} for place, reason in outcome.failures],
    }


def _print_places(title: str, places: list[str]) -> None:
    for place in places[:_MOST_PLACES]:
        sys.stdout.write(f"{title}: {place}\n")
    if len(places) > _MOST_PLACES:
        sys.stdout.write(f"{title}: {len(places) - _MOST_PLACES} more; -o json names all\n")
