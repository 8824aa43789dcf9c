"""The tables of docs/sync-bundle.md, made from the tables that read the bundle.

`python -m tests.support.bundle_reference` writes them anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import astuple
from enum import Enum
from pathlib import Path

from sync_stack.core.bundle.datasources import COMMON_TABLE, TABLES
from sync_stack.core.bundle.fields import BundleField, FieldTable
from sync_stack.core.bundle.model import GATEWAY, SCHEMA_REGISTRY, TOP
from sync_stack.core.bundle.platforms import BITBUCKET_DATACENTER, KINDS, PLATFORM, PlatformKind
from sync_stack.core.bundle.rules import CLEANUP, PRUNE, RULE
from sync_stack.core.bundle.secret_managers import VAULT

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "sync-bundle.md"
BEGIN, END = "<!-- fields: begin -->\n", "<!-- fields: end -->\n"
HEAD = "| Field | Type | Default | Meaning |\n|---|---|---|---|\n"
SECTIONS = (
    ("The bundle", TOP),
    ("Platforms", PLATFORM),
    ("Datasources: fields of all kinds", COMMON_TABLE),
    *((f"Datasource `{kind}`", table) for kind, table in TABLES.items()),
    ("Rules", RULE),
    ("`prune` of a rule", PRUNE),
    ("`cleanup` of a rule", CLEANUP),
    ("`gateway`", GATEWAY),
    ("`schema_registry`", SCHEMA_REGISTRY),
    ("Secret manager `vault`", VAULT),
)


def reference() -> str:
    parts = [f"## {title}\n\n{HEAD}{''.join(rows(table))}" for title, table in SECTIONS]
    parts.insert(2, kinds())
    return "\n".join(parts)


def document(text: str) -> str:
    """The document with its tables made anew."""
    before, _mark, rest = text.partition(BEGIN)
    _old, _mark, after = rest.partition(END)
    return f"{before}{BEGIN}{reference()}{END}{after}"


def rows(table: FieldTable) -> Iterator[str]:
    for entry in table.fields:
        if table.title not in TABLES or entry not in COMMON_TABLE.fields:
            cells = (names(entry), entry.type.description, default(entry), entry.description)
            yield "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"


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


def kinds() -> str:
    """What each kind of platform sends."""
    every: Mapping[str, PlatformKind] = {**KINDS, "bitbucket datacenter": BITBUCKET_DATACENTER}
    lines = [
        "### Kinds of platforms\n",
        "| Kind | endpoint | Event header | Signature header | Delivery id header | "
        "push_event_name | pr_event_name |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, kind in every.items():
        endpoint, *named = astuple(kind)
        cells = [name, endpoint or "required", *(", then ".join(each) for each in named)]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    DOCUMENT.write_text(document(DOCUMENT.read_text()))
