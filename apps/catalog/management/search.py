"""`suite search`: what the catalog has, in the terminal."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, Final

from apps.accounts.api import operator
from apps.catalog import selectors
from apps.catalog.domain.filters import PackageFilter, relevance
from apps.catalog.domain.packages import CatalogWarning, PackageDocument
from apps.operations.api import (
    CommandOptions,
    ExitCode,
    VerbCommand,
    print_json,
    print_table,
    printable,
)

_COLUMNS: Final = ("PACKAGE", "VERSION", "KIND", "STATUS", "SCORE", "PROVIDER", "TITLE")


def add_verbs(command: VerbCommand, verbs: Any) -> None:
    text = "search the catalog: registries, the workspace, built-in modules"
    search = command.add_verb(verbs, "search", search_packages, text)
    search.add_argument(
        "text", nargs="?", default="", help="occurs in title, repository, description or a module"
    )
    search.add_argument("--kind", choices=("suite", "stdlib"), default="", help="suite or stdlib")
    search.add_argument("--provider", default="", help="such as Workspace, Built-in, Harbor")
    search.add_argument("--module", default="", help="only packages that use this module")
    search.add_argument(
        "--starred", action="store_true", help="only favorites of the account that commands act as"
    )


def search_packages(options: CommandOptions) -> int:
    favorites = selectors.favorites_of(operator()) if options["starred"] else frozenset[str]()
    wanted = PackageFilter(
        kind=options["kind"],
        provider=options["provider"],
        module=options["module"],
        starred=options["starred"],
        words=options["text"],
    )
    entries = selectors.list_entries()
    matching = [entry["package"] for entry in entries if wanted.accepts(entry, favorites)]
    found = sorted(matching, key=lambda package: -relevance(package, options["text"]))
    failing = selectors.failing_registries()
    if options["output"] == "json":
        print_json({"packages": found, "total": len(found), "warnings": failing})
        return ExitCode.OK
    named = [package for package in found if relevance(package, options["text"])]
    if found:
        print_table(_COLUMNS, [_row(package) for package in named or found])
    else:
        sys.stderr.write("no package matches\n")
    if named and (others := [package["repository"] for package in found[len(named) :]]):
        text = printable(options["text"])
        sys.stderr.write(f"only described with {text!r}: {printable(', '.join(others))}\n")
    if failing:
        sys.stderr.write(f"{printable(_failing_words(failing))}\n")
    return ExitCode.OK


def _failing_words(failing: Sequence[CatalogWarning]) -> str:
    """Return one sentence, however many registries fail."""
    if len(failing) == 1:
        words = f"registry {failing[0]['registryId']} could not be read: {failing[0]['detail']}"
        return f"{words}; its last good content is shown"
    each = ", ".join(f"{one['registryId']} ({one['detail']})" for one in failing)
    return f"{len(failing)} registries could not be read, their last good content is shown: {each}"


def _row(package: PackageDocument) -> tuple[str, ...]:
    return (
        package["repository"],
        package["version"],
        package["kind"],
        package["status"],
        str(package["score"]),
        package["provider"],
        package["title"],
    )
