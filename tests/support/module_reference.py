"""docs/modules.md, of which the chapters of the built-in modules are made from their text.

`python -m tests.support.module_reference` writes them anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from apps.suites.evaluator.module_docs import ModuleInfo, built_in_modules

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "modules.md"
BEGIN, END = "<!-- modules: begin -->\n", "<!-- modules: end -->\n"


def document(text: str) -> str:
    """The document with its chapters made anew."""
    before, _mark, rest = text.partition(BEGIN)
    _old, _mark, after = rest.partition(END)
    return f"{before}{BEGIN}{''.join(chapters())}{END}{after}"


def chapters() -> Iterator[str]:
    for module in built_in_modules():
        yield f"### {module.name}\n\n{module.description}\n\n```python\n{module.load}\n```\n\n"
        yield "".join(functions(module)) + "\n"


def functions(module: ModuleInfo) -> Iterator[str]:
    yield "| Function | What it does |\n|---|---|\n"
    for each in module.functions:
        doc = " ".join(each.doc.split()).replace("|", "\\|")
        yield f"| `{each.signature}` | {doc} |\n"


if __name__ == "__main__":
    DOCUMENT.write_text(document(DOCUMENT.read_text()))
