"""`partita settings show|apply|diff|registries sync|registries test`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from apps.accounts.api import operator
from apps.oci import api as oci
from apps.operations.api import (
    CommandOptions,
    ExitCode,
    VerbCommand,
    print_json,
    print_table,
    printable,
)
from apps.platform_settings import api as settings
from kernel.errors import InvalidInput

_ADD_ONE: Final = "add one on /settings/registries, or in configuration.yaml and `settings apply`"


class Command(VerbCommand):
    help = "Show and change the platform settings, as the first administrator."
    examples = """\
  partita settings show                      backends and registries; secrets are masked
  partita settings show -o yaml > now.yaml   the whole document, which `apply` takes
  partita settings diff now.yaml             what it would change; exit code 1 when it differs
  partita settings apply now.yaml --dry-run  the same, after every check
  partita settings apply now.yaml            exit code 5 when others changed them meanwhile
  partita settings registries test zot       whether it answers and accepts the credentials
  partita settings registries sync           read what every registry offers"""

    def add_arguments(self, parser: Any) -> None:
        verbs = self.add_verbs(parser)
        self.add_verb(verbs, "show", show, "show the settings with masked secrets")
        apply = self.add_verb(verbs, "apply", apply_file, "replace the settings by those of a file")
        apply.add_argument("--dry-run", action="store_true", help="check, and change nothing")
        apply.add_argument(
            "--if-match", default="", metavar="TAG", help="the ETag of what the file came from"
        )
        diff = self.add_verb(verbs, "diff", diff_file, "show what a file would change")
        for verb in (apply, diff):
            verb.add_argument("file", help="a file like configuration.yaml, or - for stdin")
        text = "test and synchronize registries"
        registries = verbs.add_parser("registries", help=text, description=text)
        inner = self.add_verbs(registries)
        sync = self.add_verb(inner, "sync", sync_registries, "read what registries offer now")
        test = self.add_verb(inner, "test", test_registries, "test the connection to registries")
        for verb in (sync, test):
            verb.add_argument("registry", nargs="?", help="an id (default: every registry)")


def show(options: CommandOptions) -> int:
    document = settings.settings_document(operator())
    if options["output"] == "json":
        print_json(document)
        return ExitCode.OK
    state = "in sync with the file" if document["fileInSync"] else "the file differs"
    sys.stdout.write(f"mode {document['mode']}, {state}\n\n")
    for warning in document["warnings"]:
        sys.stdout.write(f"warning: {warning['pointer']}: {warning['detail']}\n")
    agents = [
        (each["agentId"], each["name"], each["type"], _flags(each), each["status"])
        for each in document["agents"]
    ]
    print_table(("BACKEND", "NAME", "TYPE", "FLAGS", "STATUS"), agents)
    if document["registries"]:
        registries = [
            (
                each["registryId"],
                each["registryUrl"],
                each["syncStatus"],
                each.get("lastSyncedAt", "–"),
                each.get("lastError", ""),
            )
            for each in document["registries"]
        ]
        sys.stdout.write("\n")
        print_table(("REGISTRY", "URL", "SYNC", "LAST", "ERROR"), registries)
    else:
        sys.stdout.write(f"\nno registry: {_ADD_ONE}\n")
    return ExitCode.OK


def apply_file(options: CommandOptions) -> int:
    principal, given = operator(), _document_of(options["file"])
    if options["dry_run"]:
        return _print_changes(options, settings.preview_settings(principal, given), dry=True)
    tag = options["if_match"] or settings.settings_etag(settings.settings_document(principal))
    changes = settings.replace_settings(principal, given, if_match=tag, origin="command")
    return _print_changes(options, changes)


def diff_file(options: CommandOptions) -> int:
    changes = settings.preview_settings(operator(), _document_of(options["file"]))
    _print_changes(options, changes, dry=True)
    return ExitCode.ERROR if changes else ExitCode.OK


def sync_registries(options: CommandOptions) -> int:
    found = [(each, oci.sync_registry(each)) for each in _registry_ids(options)]
    if options["output"] == "json":
        documents = [
            {
                "registryId": registry_id,
                "packages": result.packages,
                "durationMs": result.duration_ms,
                "errors": [_error(each) for each in result.errors],
            }
            for registry_id, result in found
        ]
        print_json({"registries": documents})
    elif found:
        rows = [
            (registry_id, str(result.packages), str(result.duration_ms), str(len(result.errors)))
            for registry_id, result in found
        ]
        print_table(("REGISTRY", "PACKAGES", "MS", "ERRORS"), rows)
        for registry_id, result in found:
            for each in result.errors:
                where = each.repository or registry_id
                sys.stdout.write(f"{where}: {each.code}: {printable(each.detail)}\n")
    failed = any(
        not error.repository or not result.packages
        for _, result in found
        for error in result.errors
    )
    return ExitCode.UNAVAILABLE if failed else ExitCode.OK


def test_registries(options: CommandOptions) -> int:
    found = [(each, oci.test_connection(each)) for each in _registry_ids(options)]
    if options["output"] == "json":
        documents = [
            {
                "registryId": registry_id,
                "reachable": report.reachable,
                "code": report.code,
                "detail": report.detail,
                "durationMs": report.duration_ms,
            }
            for registry_id, report in found
        ]
        print_json({"registries": documents})
    elif found:
        rows = [
            (registry_id, "ok" if report.reachable else report.code, report.detail)
            for registry_id, report in found
        ]
        print_table(("REGISTRY", "STATE", "DETAIL"), rows)
    return ExitCode.OK if all(each.reachable for _, each in found) else ExitCode.UNAVAILABLE


def _registry_ids(options: CommandOptions) -> Sequence[str]:
    operator()  # the store is usable and has an administrator
    if options["registry"]:
        return [settings.get_registry(options["registry"]).registry_id]
    found = [each.registry_id for each in settings.registries()]
    if not found:
        sys.stderr.write(f"no registry is configured; {_ADD_ONE}\n")
    return found


def _document_of(name: str) -> settings.SettingsTree:
    try:
        content = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    except OSError as error:
        raise InvalidInput(f"{name} cannot be read: {error.strerror}") from None
    return settings.settings_in_file("stdin" if name == "-" else name, content)


def _print_changes(
    options: CommandOptions, changes: list[settings.Change], *, dry: bool = False
) -> int:
    if options["output"] == "json":
        print_json({"dryRun": dry, "changes": [each.as_dict() for each in changes]})
    elif changes:
        print_table(("KEY", "OLD", "NEW"), [(each.key, each.old, each.new) for each in changes])
    else:
        sys.stdout.write("nothing differs\n")
    return ExitCode.OK


def _flags(agent: dict[str, Any]) -> str:
    flags = ["default"] if agent["default"] else []
    return ", ".join(flags if agent["enabled"] else [*flags, "disabled"])


def _error(error: oci.RepositoryError) -> dict[str, str]:
    named = {"repository": error.repository} if error.repository else {}
    return {**named, "code": error.code, "detail": error.detail}
