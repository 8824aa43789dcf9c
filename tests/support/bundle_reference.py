"""The tables of docs/sync-bundle.md, made from the tables that read the bundle.

`python -m tests.support.bundle_reference` writes them anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import MISSING
from enum import Enum
from pathlib import Path
from typing import Any

from sync_stack.core.bundle.datasource_fields import COMMON, COMMON_TABLE, TABLES
from sync_stack.core.bundle.fields import Field, Table
from sync_stack.core.bundle.managers import VAULT
from sync_stack.core.bundle.platforms import BITBUCKET_DATACENTER, KINDS, PLATFORM, PlatformKind
from sync_stack.core.bundle.rule_fields import CLEANUP, PRUNE, RULE
from sync_stack.core.bundle.top_fields import GATEWAY, SCHEMA_REGISTRY, TOP
from sync_stack.core.bundle.values import Duration

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


def rows(table: Table) -> Iterator[str]:
    for entry in table.fields:
        if table.title not in TABLES or entry not in COMMON:
            cells = (names(entry), entry.value.words, default(table, entry), entry.words)
            yield "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"


def names(entry: Field) -> str:
    aliases = f" ({', '.join(f'`{name}`' for name in entry.aliases)})" if entry.aliases else ""
    return f"`{entry.name}`{'*' if entry.required else ''}{aliases}"


def default(table: Table, entry: Field) -> str:
    if entry.default or entry.required:
        return entry.default
    found = table.default_of(entry)
    return "–" if found is MISSING else shown(found, entry)


def shown(value: Any, entry: Field) -> str:
    if isinstance(entry.value, Duration):
        return f"{value:g}s"
    if value is None or value in ("", (), {}):
        return "–"
    if isinstance(value, Enum | int | float):
        return str(value).lower() if isinstance(value, bool) else str(value)
    return f'"{value}"'


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
        named = (kind.event, kind.signature, kind.delivery, kind.push, kind.pull_request)
        cells = [name, kind.endpoint or "required", *(", then ".join(words) for words in named)]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    DOCUMENT.write_text(document(DOCUMENT.read_text()))
