"""`settings`: the platform settings of a server, its registries, and changes by a file."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

from partita_client.command.output import (
    ListColumn,
    age_of,
    note,
    printable,
    say,
    show_document,
    show_list,
)
from partita_client.command.parser import CommandNoun, CommandSession, CommandVerb
from partita_client.errors import ApiProblem, BadConfiguration
from partita_client.exit_codes import ExitCode
from partita_client.installation import ServerInstallation

_DOCUMENT: Final = ("text", "table", "wide", "json", "yaml")
_REPORT: Final = ("text", "table", "json", "yaml", "ndjson")
_MAX_BYTES: Final = 2**20  # reference: control-plane 4
_BODY: Final = "body"  # what the server calls the file
_ADD_ONE: Final = "add one on the page /settings/registries, or by `partita settings apply`"


def _flags(backend: Any) -> str:
    flags = ["default"] if backend["default"] else []
    return ", ".join(flags if backend["enabled"] else [*flags, "disabled"])


def _place_limits(backend: Any) -> str:
    limits = (backend["maxConcurrentRuns"], backend["maxConcurrentSteps"])
    return " / ".join(str(each) if each else "any" for each in limits)


BACKEND_COLUMNS: Final = (
    ListColumn(heading="BACKEND", cell=lambda each: each["agentId"]),
    ListColumn(heading="NAME", cell=lambda each: each["name"]),
    ListColumn(heading="TYPE", cell=lambda each: each["type"]),
    ListColumn(heading="FLAGS", cell=_flags),
    ListColumn(heading="STATUS", cell=lambda each: each["status"], is_status=True),
    ListColumn(heading="TAGS", cell=lambda each: ", ".join(each["routingTags"]), is_wide=True),
    ListColumn(heading="RUNS / STEPS", cell=_place_limits, is_wide=True),
    ListColumn(heading="LAST HEARD OF", cell=lambda each: each.get("lastHeartbeatAt", "–"),
               is_wide=True),
    ListColumn(heading="WAITS FOR", cell=lambda each: each.get("waitsFor", ""), is_wide=True),
)  # fmt: skip
REGISTRY_COLUMNS: Final = (
    ListColumn(heading="REGISTRY", cell=lambda each: each["registryId"]),
    ListColumn(heading="URL", cell=lambda each: each["registryUrl"]),
    ListColumn(heading="SYNC", cell=lambda each: each["syncStatus"], is_status=True),
    ListColumn(heading="AGE", cell=lambda each: age_of(each.get("lastSyncedAt"))),
    ListColumn(heading="LAST", cell=lambda each: each.get("lastSyncedAt", "–"), is_wide=True),
    ListColumn(heading="SCOPE", cell=lambda each: each["repositoryScope"] or "*", is_wide=True),
    ListColumn(heading="ERROR", cell=lambda each: each.get("lastError", "")),
)
CHANGE_COLUMNS: Final = (
    ListColumn(heading="KEY", cell=lambda each: each["key"]),
    ListColumn(heading="OLD", cell=lambda each: each["old"]),
    ListColumn(heading="NEW", cell=lambda each: each["new"]),
)
TEST_COLUMNS: Final = (
    ListColumn(heading="REGISTRY", cell=lambda each: each["registryId"]),
    ListColumn(heading="STATE", cell=lambda each: "ok" if each["reachable"] else each["code"]),
    ListColumn(heading="DETAIL", cell=lambda each: each["detail"]),
)
SYNC_COLUMNS: Final = (
    ListColumn(heading="REGISTRY", cell=lambda each: each["registryId"]),
    ListColumn(heading="PACKAGES", cell=lambda each: str(each["packages"])),
    ListColumn(heading="MS", cell=lambda each: str(each["durationMs"])),
    ListColumn(heading="ERRORS", cell=lambda each: str(len(each["errors"]))),
)


def show_settings(session: CommandSession) -> int:
    document, tag = ServerInstallation(session.client).settings()
    if not session.is_for_people:
        show_document(document, session.form)
        return ExitCode.OK
    state = "in sync with the file" if document["fileInSync"] else "the file differs"
    say(printable(f"mode {document['mode']}, {state}"))
    if session.form == "wide":
        say(printable(f"changed {document.get('updatedAt', 'never')}, tag {tag}"))
    for warning in document["warnings"]:
        say(printable(f"warning: {warning['pointer']}: {warning['detail']}"))
    say("")
    show_list("agents", document["agents"], BACKEND_COLUMNS, session.form, key="agentId")
    say("")
    if known := document["registries"]:
        show_list("registries", known, REGISTRY_COLUMNS, session.form, key="registryId")
    else:
        say(f"no registry: {_ADD_ONE}")
    return ExitCode.OK


def _add_file(parser: Any) -> None:
    parser.add_argument(
        "file", metavar="FILE", help="YAML or JSON like configuration.yaml; - for stdin"
    )


def _add_apply(parser: Any) -> None:
    _add_file(parser)
    parser.add_argument("--dry-run", action="store_true", help="check, and change nothing")
    parser.add_argument(
        "--if-match", default="", metavar="TAG", help="the tag of what the file came from"
    )


def apply_file(session: CommandSession) -> int:
    """Replace the settings, unless others change them between what is printed and the write."""
    options, installation = session.options, ServerInstallation(session.client)
    file = _read_file(options.file)
    tag = options.if_match or installation.settings()[1]
    with _name_file(options.file):
        changes = installation.preview_settings(file)
        if not options.dry_run:
            installation.replace_settings(file, if_match=tag)
    _show_changes(session, changes, dry=options.dry_run)
    if changes and session.is_for_people:
        note("dry run: nothing was changed" if options.dry_run else "applied")
    return ExitCode.OK


def diff_file(session: CommandSession) -> int:
    file = _read_file(session.options.file)
    with _name_file(session.options.file):
        changes = ServerInstallation(session.client).preview_settings(file)
    _show_changes(session, changes, dry=True)
    return ExitCode.ERROR if changes else ExitCode.OK


def _read_file(name: str) -> bytes:
    """Return the content of a file; raise BadConfiguration."""
    try:
        if name == "-":
            content = sys.stdin.buffer.read(_MAX_BYTES + 1)
        else:
            with Path(name).open("rb") as opened:
                content = opened.read(_MAX_BYTES + 1)
    except OSError as error:
        raise BadConfiguration(
            f"{name} cannot be read: {error.strerror}",
            advice="partita settings show -o yaml > FILE makes one to start from",
        ) from None
    if len(content) > _MAX_BYTES:
        raise BadConfiguration(f"{name} is larger than {_MAX_BYTES} bytes")
    return content


@contextmanager
def _name_file(name: str) -> Iterator[None]:
    """Name the file in what the server says about it."""
    name = "stdin" if name == "-" else name
    try:
        yield
    except ApiProblem as error:
        errors = [
            {**each, "file": name} if each.get("file") == _BODY else each for each in error.errors
        ]
        error.document = {**error.document, "errors": errors}
        start = f"{_BODY}:"
        if error.detail.startswith(start):
            error.detail = f"{name}:{error.detail.removeprefix(start)}"
        raise


def _show_changes(session: CommandSession, changes: list[Any], *, dry: bool) -> None:
    if session.form in ("json", "yaml"):
        show_document({"dryRun": dry, "changes": changes}, session.form)
    elif changes or session.form == "ndjson":
        show_list("changes", changes, CHANGE_COLUMNS, session.form, key="key")
    else:
        say("nothing differs")


def _add_registries(parser: Any) -> None:
    parser.add_argument(
        "action",
        choices=("test", "sync"),
        help="test: do they answer and let the server in? sync: read what they offer now",
    )
    parser.add_argument(
        "registry", nargs="?", default="", metavar="REGISTRY", help="an id (default: all of them)"
    )


def ask_registries(session: CommandSession) -> int:
    """Test registries, or have the server read them; return UNAVAILABLE where one failed."""
    installation = ServerInstallation(session.client)
    wanted = session.options.registry
    known = [wanted] if wanted else _registry_ids(installation)
    if session.options.action == "test":
        tests = [_test_registry(installation, each, is_one=bool(wanted)) for each in known]
        _show_registries(session, tests, TEST_COLUMNS)
        is_well = all(each["reachable"] for each in tests)
        return ExitCode.OK if is_well else ExitCode.UNAVAILABLE
    syncs = [_sync_registry(installation, each, is_one=bool(wanted)) for each in known]
    _show_registries(session, syncs, SYNC_COLUMNS)
    if session.is_for_people:
        for sync in syncs:
            for error in sync["errors"]:
                where = error.get("repository") or sync["registryId"]
                say(printable(f"{where}: {error['code']}: {error['detail']}"))
    return ExitCode.UNAVAILABLE if any(map(_has_failed, syncs)) else ExitCode.OK


def _test_registry(installation: ServerInstallation, name: str, *, is_one: bool) -> Any:
    """Return what a test found; a refusal for one of many is one of its findings."""
    try:
        return installation.test_registry(name)
    except ApiProblem as error:
        _require_refusal_of_one(error, is_one=is_one)
        return {
            "registryId": name,
            "reachable": False,
            "code": error.code,
            "detail": error.detail,
            "durationMs": 0,
        }


def _sync_registry(installation: ServerInstallation, name: str, *, is_one: bool) -> Any:
    """Return what was read; a refusal for one of many is one of its errors."""
    try:
        return {"registryId": name, **installation.sync_registry(name)}
    except ApiProblem as error:
        _require_refusal_of_one(error, is_one=is_one)
        errors = [{"code": error.code, "detail": error.detail}]
        return {"registryId": name, "packages": 0, "durationMs": 0, "errors": errors}


def _require_refusal_of_one(error: ApiProblem, *, is_one: bool) -> None:
    """Raise an error that ends the command: of the only registry, or of who asks."""
    if is_one or error.status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        raise error


def _registry_ids(installation: ServerInstallation) -> list[str]:
    found = [str(each["registryId"]) for each in installation.settings()[0]["registries"]]
    if not found:
        note(f"no registry is configured; {_ADD_ONE}")
    return found


def _show_registries(
    session: CommandSession, documents: list[Any], columns: tuple[ListColumn, ...]
) -> None:
    if documents or not session.is_for_people:
        show_list("registries", documents, columns, session.form, key="registryId")


def _has_failed(sync: Any) -> bool:
    """Return whether a registry could not be read: one repository of many is none."""
    return any("repository" not in error or not sync["packages"] for error in sync["errors"])


NOUN: Final = CommandNoun(
    name="settings",
    text="Show and change the platform settings: backends, registries, secrets, mail.",
    is_shared=True,
    verbs=(
        CommandVerb(
            name="show",
            text="show the settings with masked secrets",
            run=show_settings,
            formats=_DOCUMENT,
        ),
        CommandVerb(
            name="diff",
            text="show what a file would change; exit code 1 where it differs",
            run=diff_file,
            add_arguments=_add_file,
            formats=_REPORT,
        ),
        CommandVerb(
            name="apply",
            text="replace the settings by those of a file",
            run=apply_file,
            add_arguments=_add_apply,
            formats=_REPORT,
        ),
        CommandVerb(
            name="registries",
            text="test registries, or have the server read them now",
            run=ask_registries,
            add_arguments=_add_registries,
            formats=_REPORT,
        ),
    ),
    examples="""\
  partita settings show                      backends and registries
  partita settings show -o yaml > now.yaml   the whole document, which `apply` takes
  partita settings diff now.yaml             what it would change
  partita settings apply now.yaml --dry-run  the same, after every check
  partita settings apply now.yaml            exit code 5 when others changed them meanwhile
  partita settings registries test zot       whether it answers and lets the server in
  partita settings registries sync           read what every registry offers""",
)
