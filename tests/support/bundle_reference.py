"""The tables of the sync's documentation, made from what reads the bundle and from the plug-ins.

`python -m tests.support.bundle_reference` writes them anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import astuple, dataclass
from enum import Enum
from pathlib import Path

from sync_stack.core.bundle.datasources import COMMON_TABLE, UpdateStrategy, datasource_kinds
from sync_stack.core.bundle.fields import BundleField, FieldTable
from sync_stack.core.bundle.model import GATEWAY, SCHEMA_REGISTRY, TOP
from sync_stack.core.bundle.platforms import PLATFORM, PlatformDefaults, platform_kinds
from sync_stack.core.bundle.rules import CLEANUP, PRUNE, RULE
from sync_stack.core.bundle.secret_managers import VAULT
from sync_stack.core.formats import formats

DOCS = Path(__file__).resolve().parents[2] / "docs"
FIELDS = ("Field", "Type", "Default", "Meaning")


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A document with a part between two marks that `make` writes."""

    path: Path
    mark: str
    make: Callable[[], str]

    def document(self, text: str) -> str:
        """Return the document with its part made anew."""
        begin, end = f"<!-- {self.mark}: begin -->\n", f"<!-- {self.mark}: end -->\n"
        before, _mark, rest = text.partition(begin)
        _old, _mark, after = rest.partition(end)
        return f"{before}{begin}{self.make()}{end}{after}"


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    lines = [" | ".join(cell.replace("|", "\\|") for cell in row) for row in (head, *rows)]
    rule = "---|" * (lines[0].count(" | ") + 1)
    head_line, *others = [f"| {line} |\n" for line in lines]
    return f"{head_line}|{rule}\n{''.join(others)}"


def reference() -> str:
    datasources = (datasource_kinds[kind] for kind in datasource_kinds)
    parts = [
        section("The bundle", TOP),
        section("Platforms", PLATFORM),
        f"### Kinds of platforms\n\n{platforms()}",
        section("Datasources: fields of all kinds", COMMON_TABLE),
        *(section(f"Datasource `{kind.name}`", kind.table, COMMON_TABLE) for kind in datasources),
        section("Rules", RULE),
        section("`prune` of a rule", PRUNE),
        section("`cleanup` of a rule", CLEANUP),
        section("`gateway`", GATEWAY),
        section("`schema_registry`", SCHEMA_REGISTRY),
        section("Secret manager `vault`", VAULT),
    ]
    return "\n".join(parts)


def section(title: str, fields: FieldTable, common: FieldTable | None = None) -> str:
    """Return a section with the fields of a table that are not in the `common` one."""
    left_out = common.fields if common else ()
    rows = (
        (names(entry), entry.type.description, default(entry), entry.description)
        for entry in fields.fields
        if entry not in left_out
    )
    return f"## {title}\n\n{table(FIELDS, rows)}"


def names(entry: BundleField) -> str:
    name, *aliases = (f"`{name}`" for name in entry.names)
    also = f" ({', '.join(aliases)})" if aliases else ""
    return f"{name}{'*' if entry.is_required else ''}{also}"


def default(entry: BundleField) -> str:
    if entry.shown or entry.is_required:
        return entry.shown
    if entry.type.description.startswith("duration"):
        return f"{entry.default:g}s"
    if entry.default is None or entry.default in ("", (), {}):
        return "–"
    if isinstance(entry.default, Enum | int | float):
        return str(entry.default).lower() if isinstance(entry.default, bool) else str(entry.default)
    return f'"{entry.default}"'


def platforms() -> str:
    """Return what each kind of platform sends."""
    head = ("Kind", "endpoint", "Event header", "Signature header", "Delivery id header")
    return table((*head, "push_event_name", "pr_event_name"), platform_rows())


def platform_rows() -> Iterator[list[str]]:
    for name in platform_kinds:
        kind = platform_kinds[name]
        flavors = {f"{name} {flavor}": facts for flavor, facts in kind.flavors.items()}
        for title, facts in (flavors or {name: kind.defaults}).items():
            yield [title, *platform_cells(facts)]


def platform_cells(facts: PlatformDefaults) -> list[str]:
    endpoint, *named = astuple(facts)
    return [endpoint or "required", *(", then ".join(each) for each in named)]


def sinks() -> str:
    """Return what each kind of datasource stores as a record."""
    head = ("Kind", *UpdateStrategy, "Default", "Fencing", "Key formats (default first)")
    kinds = (datasource_kinds[name] for name in datasource_kinds)
    rows = (
        [
            kind.name,
            *(kind.records.get(strategy, "–") for strategy in UpdateStrategy),
            kind.default_strategy,
            "yes" if kind.fencing else "no",
            ", ".join(kind.key_formats),
        ]
        for kind in kinds
    )
    return table(head, rows)


def file_formats() -> str:
    """Return the files of each format."""
    kinds = (formats[name] for name in formats)
    rows = (
        [
            kind.name,
            " ".join(f"`{name}`" for name in (*kind.names, *(f"*.{e}" for e in kind.extensions))),
            kind.notes,
            "yes" if kind.render else "no",
        ]
        for kind in kinds
    )
    return table(("Format", "Files", "Notes", "Written by sinks"), rows)


PAGES = (
    Page(path=DOCS / "sync-bundle.md", mark="fields", make=reference),
    Page(path=DOCS / "sync-sinks.md", mark="kinds", make=sinks),
    Page(path=DOCS / "sync-formats.md", mark="formats", make=file_formats),
)


if __name__ == "__main__":
    for page in PAGES:
        page.path.write_text(page.document(page.path.read_text()))
