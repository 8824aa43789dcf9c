"""`mock import`: contracts, recorded calls and mocks of other tools as files of a suite."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from apps.mocks.imported_files import WritePlan, plan_write, write
from apps.operations.api import CommandOptions, ExitCode, VerbCommand, escape, print_json
from apps.suites import api as suites
from kernel.errors import InvalidInput
from readers import Unreadable
from readers.folder import MAX_CONTRACT_BYTES
from surfaces.imports import MAX_RECORDING, Imported, convert_file, convert_folder

if TYPE_CHECKING:
    from rich.console import Console

MAX_FILES: Final = 5_000  # of a folder
EXAMPLES: Final = """\
  partita mock import openapi.yaml --suite shop     a contract alone is a working mock
  partita mock import shop.postman_collection.json --suite shop --surface shop --dry-run
  partita mock import recorded.har --out ./recorded
  partita mock import ./wiremock --suite shop       a folder with mappings/ and __files/"""


def add_verbs(command: VerbCommand, verbs: Any) -> None:
    verb = command.add_verb(
        verbs,
        "import",
        import_file,
        "write OpenAPI, Postman, HAR, or mocks of WireMock and Microcks as files of a suite",
    )
    verb.add_argument("file", help="the file or folder; its format is seen from its content")
    add_target(verb)
    verb.add_argument("--surface", default="", help="the API surface of recorded calls")
    verb.add_argument("--dry-run", action="store_true", help="write nothing, say what would be")
    verb.add_argument("--force", action="store_true", help="replace files that differ")


def add_target(verb: Any) -> None:
    target = verb.add_mutually_exclusive_group(required=True)
    target.add_argument("--suite", default="", help="a suite of the workspace, by its id")
    target.add_argument("--out", default="", metavar="DIR", help="a folder, made when missing")


def target_folder(options: CommandOptions) -> Path:
    """Return the folder that the options name; raise SuiteNotFound or InvalidInput."""
    if options["suite"]:
        suites.use_files_without_store()
        return suites.workspace_folder(suites.find_suite(options["suite"]))
    return Path(options["out"])


def count_noun(count: int, noun: str) -> str:
    """Return a count with its noun, in the plural unless it is one."""
    return f"{count} {noun}{'s' * (count != 1)}"


def import_file(options: CommandOptions) -> int:
    place = Path(options["file"])
    folder = target_folder(options)
    try:
        found = _convert(place, options["surface"])
    except Unreadable as error:
        parts = (place, error.line, error.column)
        at = ":".join(str(part) for part in parts if part)
        raise InvalidInput(f"{at}: {error.reason}") from None
    plan = plan_write(found.files, folder)
    refused = bool(plan.changed) and not options["force"]
    if not (refused or options["dry_run"]):
        write(plan)
    if options["output"] == "json":
        print_json(_document(found, plan, written=not (refused or options["dry_run"])))
    else:
        _print(found, plan, options, refused=refused)
    return ExitCode.CONFLICT if refused else ExitCode.OK


def _convert(place: Path, surface: str) -> Imported:
    """Return the files that a file or folder becomes; raise Unreadable or InvalidInput."""
    if place.is_dir():
        return convert_folder(place.resolve().name, _folder(place), surface=surface)
    return convert_file(
        place.name, _content(place), lambda path: _beside(place.parent, path), surface=surface
    )


def _folder(place: Path) -> dict[str, bytes]:
    """Return the files of a folder by their path in it; raise InvalidInput for a large one."""
    found: dict[str, bytes] = {}
    left = MAX_RECORDING
    for path in sorted(place.rglob("*")):
        name = path.relative_to(place).as_posix()
        if not path.is_file() or not path.resolve().is_relative_to(place.resolve()):
            continue
        left -= path.stat().st_size
        if left < 0 or len(found) >= MAX_FILES:
            raise InvalidInput(f"{place}: more than {MAX_FILES} files or {MAX_RECORDING} bytes")
        found[name] = _content(path)
    return found


def _content(place: Path) -> bytes:
    try:
        with place.open("rb") as file:
            return file.read(MAX_RECORDING + 1)
    except OSError as error:
        raise InvalidInput(f"{place}: {error.strerror}") from None


def _beside(folder: Path, path: str) -> bytes | None:
    """Return a file that a contract refers to; none through links that lead out."""
    target = (folder / path).resolve()
    if not target.is_relative_to(folder.resolve()) or not target.is_file():
        return None
    content = target.read_bytes() if target.stat().st_size <= MAX_CONTRACT_BYTES else None
    return content if content and b"\0" not in content else None


def _document(found: Imported, plan: WritePlan, *, written: bool) -> dict[str, Any]:
    return {
        "kind": found.kind,
        "folder": str(plan.folder),
        "written": written,
        "files": {"new": plan.new, "changed": plan.changed, "unchanged": plan.same},
        "surfaces": [{"id": name, "operations": each} for name, each in found.surfaces.items()],
        "examples": found.examples,
        "leftOut": dict(found.left_out),
        "warnings": [each.as_dict() for each in found.warnings],
    }


def _print(found: Imported, plan: WritePlan, options: CommandOptions, *, refused: bool) -> None:
    from rich.console import Console  # slow to import

    console = Console(highlight=False, soft_wrap=True)
    verb = "would write" if options["dry_run"] or refused else "wrote"
    for path in plan.new:
        console.print(f"{verb} {escape(str(plan.folder / path))}")
    for path in plan.changed:
        words = "differs" if refused else f"{verb} (replaced)"
        console.print(f"{words} {escape(str(plan.folder / path))}")
    for name, operations in found.surfaces.items():
        console.print(f"API surface {escape(name)}: {count_noun(operations, 'operation')}")
    if found.examples:
        console.print(count_noun(found.examples, "example"))
    _print_rest(found, console)
    if refused:
        count = len(plan.changed)
        sys.stderr.write(f"nothing was written: {count} files differ; --force replaces them\n")


def _print_rest(found: Imported, console: Console) -> None:
    for reason, count in found.left_out.items():
        console.print(f"left out, {count} times: {escape(reason)}")
    for warning in found.warnings[:20]:
        place = f"{warning.place()}: " if warning.line else ""
        console.print(f"[yellow]![/] {escape(f'{place}{warning.detail}')}")
