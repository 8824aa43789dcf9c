"""The tables of docs/suites.md, made from the node kinds.

`python -m tests.support.suite_reference` writes them anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from apps.suites.calls import node_kinds

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "suites.md"
BEGIN, END = "<!-- calls: begin -->\n", "<!-- calls: end -->\n"


def document(text: str) -> str:
    """The document with its tables made anew."""
    before, _mark, rest = text.partition(BEGIN)
    _old, _mark, after = rest.partition(END)
    return f"{before}{BEGIN}{reference()}{END}{after}"


def reference() -> str:
    return (
        f"| Call | Result |\n|---|---|\n{''.join(calls())}\n"
        f"| Keyword | Applies to | Meaning |\n|---|---|---|\n{''.join(keywords())}"
    )


def calls() -> Iterator[str]:
    for name in node_kinds:
        if functions := node_kinds[name].functions:
            first, *others = functions
            shown = ", ".join([f"`{name}.{first}(…)`", *(f"`{each}`" for each in others)])
            yield f"| {shown} | {node_kinds[name].summary} |\n"
        for function, preset in node_kinds[name].presets.items():
            yield f"| `{name}.{function}(…)` | {preset.summary} |\n"


def keywords() -> Iterator[str]:
    """One row for each keyword and meaning, with the kinds that have it."""
    kinds = {name: node_kinds[name] for name in node_kinds if node_kinds[name].functions}
    rows: dict[tuple[str, str], list[str]] = {}
    for name, kind in kinds.items():
        own = [each for preset in kind.presets.values() for each in preset.keywords]
        for keyword in (*kind.keywords, *own):
            rows.setdefault((keyword.name, keyword.meaning), []).append(name)
    for (keyword_name, meaning), having in rows.items():
        shown = "all" if len(having) == len(kinds) else ", ".join(having)
        yield f"| `{keyword_name}` | {shown} | {meaning} |\n"


if __name__ == "__main__":
    DOCUMENT.write_text(document(DOCUMENT.read_text()))
