"""CUE schemas, checked by the built-in evaluator: `#Config` if defined, else the whole value."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Final

from kernel.complaints import Complaint
from kernel.cue import CueError, evaluate, vet
from kernel.reading.tree import Attribute, Tree
from sync_stack.core.shaping.flattening import Path
from sync_stack.core.shaping.schema_marks import Marks, SchemaUnusable

_DEFINITION: Final = re.compile(r"^#Config\b", re.MULTILINE)
_MEMBER: Final = "partita_checked_value"
_REFERENCE: Final = re.compile(r'\s*ref\s*=\s*"([^"#]+#[^"#]+)"\s*')
_ATTRIBUTE: Final = re.compile(r"@(?:secret|logger)\b")


def check_cue(
    text: str, tree: Tree, *, schema_file: str, file: str
) -> tuple[list[Complaint], Marks]:
    """All complaints about the tree, without values, and the keys that the schema marks.

    Raises SchemaUnusable.
    """
    try:
        found = vet(text, tree, file=file)
    except CueError as error:
        first = error.complaints[0]
        raise SchemaUnusable(f"{schema_file}:{first.line}: not evaluated [{first.code}]") from None
    said = [
        replace(one, code="schema_invalid", severity="warning", message=f"breaks it [{one.code}]")
        for one in found
    ]
    return said, _marks(text, tree) if _ATTRIBUTE.search(text) else Marks()


def _marks(text: str, tree: Tree) -> Marks:
    """The attributes that the value has once it is unified with the schema."""
    value = json.dumps(tree.plain(), ensure_ascii=False)
    unified = f"{_MEMBER}: #Config & {value}" if _DEFINITION.search(text) else value[1:-1]
    try:
        evaluated = evaluate(f"{text}\n{unified}\n", file="schema")
    except CueError:
        raise SchemaUnusable("the file does not fit the schema that marks its secrets") from None
    secrets: dict[Path, str] = {}
    logged: set[Path] = set()
    for path, node in (evaluated.get(_MEMBER) or evaluated).walk():
        for attribute in node.attributes:
            if attribute.name == "secret":
                secrets[path] = _reference(attribute)
            if attribute.name == "logger":
                logged.add(path)
    return Marks(secrets=secrets, logged=frozenset(logged))


def _reference(attribute: Attribute) -> str:
    if not attribute.body.strip():
        return ""
    match = _REFERENCE.fullmatch(attribute.body)
    if not match:
        raise SchemaUnusable('a secret is marked `@secret()` or `@secret(ref="path#key")`')
    return match[1]
