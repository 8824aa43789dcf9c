"""Environment variables of the control plane: docs/tables/environment.md."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from documentation.markdown import code, codes, table
from documentation.pages import ROOT

SETTINGS: Final = ROOT / "platform_site" / "settings"
_KINDS: Final = {  # reader of platform_site/settings/env.py → what it takes
    "text": "text",
    "secret": "secret",
    "secret_words": "secrets, comma list",
    "served_hosts": "host names, comma list",
    "flag": "`true` or `false`",
    "optional_flag": "`true` or `false`",
    "integer": "whole number",
    "number": "number",
    "duration_s": "duration, such as `30s`",
    "size": "size, such as `512Mi`",
    "words": "comma list",
    "mapping": "JSON object of texts",
    "mail_address": "address of a mail server",
    "artifact_location": "where artifacts go",
}
_CHOICE: Final = "choice"
_OF_THE_SYSTEM: Final = ("KUBERNETES_SERVICE_HOST", "XDG_STATE_HOME")  # nobody sets them for us
_DESCRIBED_IN: Final = ("docs/operations.md", "docs/sync-deploy.md", "docs/guides")


class UnknownReader(ValueError):
    """A settings module reads a variable by a function that this page has no words for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentVariable:
    name: str
    kind: str
    default: str  # as Markdown; empty where there is none, or where it is computed


def page() -> str:
    rows = [
        (code(each.name), each.kind, each.default, description_link(each.name))
        for each in sorted(variables().values(), key=lambda each: each.name)
    ]
    return (
        "# Environment variables\n\n"
        "All variables that the settings of the control plane read. Each secret can also be read from the file that "
        "`<NAME>_FILE` names. A value that cannot be read stops the start with the name, the value and what was "
        "expected. Variables of the configuration sync: [Deploy](../sync-deploy.md#variables).\n\n"
        f"{table(('Variable', 'Value', 'Default', 'Described in'), rows)}"
    )


def variables(folder: Path = SETTINGS) -> dict[str, EnvironmentVariable]:
    """Return the variables that the settings modules read, by name; the first default counts."""
    found: dict[str, EnvironmentVariable] = {}
    for path in [folder / "base.py", *sorted(folder.glob("*.py"))]:
        if path.name not in ("env.py", "test.py") and "sync" not in path.name:
            for call in _reads(path):
                variable = _variable(call)
                if variable.name not in _OF_THE_SYSTEM:
                    found.setdefault(variable.name, variable)
    return found


def _reads(path: Path) -> Iterator[ast.Call]:
    """Yield each call of a reader with the name of a variable; refuse one that is unknown."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"), str(path))):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            continue
        owner, first = node.func.value, node.args[0] if node.args else None
        is_reader = isinstance(owner, ast.Name) and owner.id == "env"
        if not is_reader or not isinstance(first, ast.Constant):
            continue
        name = first.value
        if isinstance(name, str) and re.fullmatch(r"[A-Z][A-Z0-9_]+[A-Z0-9]", name):
            if node.func.attr not in (*_KINDS, _CHOICE):
                raise UnknownReader(f"{path.name}:{node.lineno}: env.{node.func.attr}({name!r})")
            yield node


def _variable(call: ast.Call) -> EnvironmentVariable:
    reader = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    name = ast.literal_eval(call.args[0])
    keywords = {each.arg: each.value for each in call.keywords}
    given = keywords.get("default", call.args[1] if len(call.args) > 1 else None)
    kind = _KINDS.get(reader, "")
    if reader == _CHOICE:
        options = _literal(call.args[2])
        kind = f"one of {codes(options)}" if isinstance(options, tuple) else "a word"
    return EnvironmentVariable(name=name, kind=kind, default=_shown_default(reader, given))


def _shown_default(reader: str, given: ast.expr | None) -> str:
    value = _literal(given)
    if value is None or reader in ("served_hosts", "artifact_location"):
        return ""
    return code(str(value).lower() if isinstance(value, bool) else value)


def _literal(node: ast.expr | None) -> object:
    """Return the value of a literal; None for what is computed."""
    try:
        return None if node is None else ast.literal_eval(node)
    except ValueError:
        return None


def description_link(name: str) -> str:
    """Return a link to the document that says what a variable means; empty without one."""
    for place in _DESCRIBED_IN:
        path = ROOT / place
        for document in [path] if path.is_file() else sorted(path.glob("*.md")):
            if re.search(rf"`(?:[^`\n]*[^A-Z_`\n])?{name}\b", document.read_text(encoding="utf-8")):
                address = document.relative_to(ROOT / "docs").as_posix()
                anchor = "#environment" if place.endswith("operations.md") else ""
                return f"[{document.stem.replace('-', ' ').capitalize()}](../{address}{anchor})"
    return ""
