"""`partita store backup|verify|restore|copy`."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from django.db import connection

from apps.accounts.api import end_every_sign_in
from apps.console import conf
from apps.console.embedded.up import FolderInUse, lock_folder
from apps.console.store_copy import copy_store
from apps.executions.api import cancel_unfinished_runs, put_off_orphans
from apps.operations.api import (
    BackupManifest,
    ExitCode,
    StoreConflict,
    TableSummary,
    VerbCommand,
    key_fingerprints,
    print_json,
    print_table,
    restore,
    verify_backup,
    write_backup,
)

_REASON = "the store was restored from a backup"


class Command(VerbCommand):
    help = (
        "Save the store into one file, restore it, and move it to another kind of store. "
        "Guide: docs/guides/backup-and-restore.md."
    )
    environment = (
        "DB_DRIVER and SQLITE_PATH, POSTGRES_DSN or MONGO_URI: the store; DATA_DIR (var): the "
        "folder of `up`, whose up.env names them where the environment does not"
    )
    examples = """\
  partita store backup partita.backup               beside a running `up`
  partita store verify partita.backup               every table against its hash
  DATA_DIR=/srv/new partita store restore partita.backup
  partita store restore partita.backup --as-copy    to try it beside the original
  partita store copy --from sqlite:///srv/partita/partita.sqlite3 --to env:NEW_STORE_URL"""

    def add_arguments(self, parser: Any) -> None:
        verbs = self.add_verbs(parser)
        backup = self.add_verb(verbs, "backup", backup_store, "write the whole store into a file")
        backup.add_argument("target", type=Path, help="the file, which must not exist")
        verify = self.add_verb(verbs, "verify", verify_archive, "check a backup; nothing changes")
        load = self.add_verb(verbs, "restore", restore_store, "load a backup into an empty store")
        for verb in (verify, load):
            verb.add_argument("source", type=Path, help="a file that `store backup` wrote")
        load.add_argument(
            "--as-copy",
            action="store_true",
            help="make it an installation of its own, which leaves the containers of the original "
            "and the bytes of its artifacts alone",
        )
        copy = self.add_verb(verbs, "copy", copy_between, "load one store into another, empty one")
        for option, text in (("--from", "the store to read"), ("--to", "the empty store to fill")):
            copy.add_argument(
                option,
                dest=f"{option[2:]}_url",
                required=True,
                metavar="URL",
                help=f"{text}: sqlite:///PATH, postgres://…, mongodb://HOST/DATABASE, or env:NAME "
                "for a variable with such an address, which keeps a password out of the process "
                "list",
            )
        for verb in (verify, load, copy):
            verb.add_argument(
                "--max-bytes",
                type=int,
                metavar="N",
                help="how much the tables may expand to (default: 1 GiB, or 200 times the file)",
            )


def backup_store(options: Mapping[str, Any]) -> int:
    _without_pool()
    manifest = write_backup(options["target"], _progress)
    _print(options, manifest, "saved", options["target"])
    return ExitCode.OK


def verify_archive(options: Mapping[str, Any]) -> int:
    manifest = verify_backup(options["source"], _progress, max_bytes=options["max_bytes"])
    _print(options, manifest, "verified", options["source"])
    _warn_about_keys(manifest)
    return ExitCode.OK


def restore_store(options: Mapping[str, Any]) -> int:
    _without_pool()
    try:
        with lock_folder(conf.data_dir()):
            manifest = restore(
                options["source"],
                _progress,
                _end_what_was_open,
                max_bytes=options["max_bytes"],
                as_copy=options["as_copy"],
            )
    except FolderInUse:
        raise StoreConflict(f"`up` uses the folder {conf.data_dir()}: stop it first") from None
    _print(options, manifest, "restored", options["source"])
    _warn_about_keys(manifest)
    return ExitCode.OK


def copy_between(options: Mapping[str, Any]) -> int:
    found = copy_store(options["from_url"], options["to_url"], max_bytes=options["max_bytes"])
    if found.document is None:
        return found.exit_code
    if options["output"] == "json":
        print_json(found.document)
    else:
        _print_tables(found.document["tables"])
        sys.stdout.write("\ncopied; point DB_DRIVER and its address at the new store\n")
    return ExitCode.OK


def _end_what_was_open() -> None:
    """Nothing that was going on when the backup was taken goes on as if no time had passed."""
    runs = cancel_unfinished_runs(_REASON)
    end_every_sign_in()
    put_off_orphans()
    sys.stderr.write(f"canceled {runs} runs that were in progress; everyone must sign in again\n")


def _progress(table: TableSummary) -> None:
    if table.rows:
        sys.stderr.write(f"  {table.model}: {table.rows} rows\n")


def _print(options: Mapping[str, Any], manifest: BackupManifest, verb: str, path: Path) -> None:
    document = manifest.as_document()
    if options["output"] == "json":
        print_json({"archive": str(path), "action": verb, **document})
        return
    _print_tables(document["tables"])
    sys.stdout.write(
        f"\n{verb} {path}: {manifest.rows} rows of {manifest.created_at}, Partita "
        f"{manifest.partita}, {manifest.store}\nkeys (fingerprints): {', '.join(manifest.keys)}\n"
    )
    if manifest.has_all_artifacts:
        sys.stdout.write("the archive holds the bytes of all artifacts\n")
    sys.stdout.write("the archive does not hold; save these too:\n")
    for each in manifest.not_included:
        sys.stdout.write(f"  - {each}\n")


def _print_tables(tables: Any) -> None:
    rows: Iterable[Any] = (each for each in tables if each["rows"])
    print_table(
        ("TABLE", "ROWS", "BYTES", "SHA-256"),
        [(each["model"], str(each["rows"]), str(each["bytes"]), each["sha256"]) for each in rows],
    )


def _warn_about_keys(manifest: BackupManifest) -> None:
    """Say when this process cannot decrypt what the archive holds."""
    if manifest.keys and manifest.keys[0] not in key_fingerprints():
        sys.stderr.write(
            f"warning: the settings and second factors in it are encrypted with the key "
            f"{manifest.keys[0]}, which this process does not have: bring up.env, or JWT_SECRET "
            "and SETTINGS_ENCRYPTION_KEY, from where the backup was taken\n"
        )


def _without_pool() -> None:
    """One connection only: those of a pool would count as other users of the database."""
    connection.settings_dict["OPTIONS"].pop("pool", None)
