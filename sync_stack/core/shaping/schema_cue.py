"""CUE schemas, checked by the built-in evaluator: `#Config` if defined, else the whole value."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from cue import CueError, vetted
from readers.diagnostics import Diagnostic
from readers.tree import Attribute, Tree
from sync_stack.core.shaping.leaves import Path
from sync_stack.core.shaping.schema_marks import Marks, SchemaUnusable

_REFERENCE: Final = re.compile(r'\s*ref\s*=\s*"([^"#]+#[^"#]+)"\s*')


def check_cue(
    text: str, tree: Tree, *, schema_file: str, file: str, binary: str = ""
) -> tuple[list[Diagnostic], Marks]:
    """Return the errors in the tree, without values, and the schema's marks. Raise SchemaUnusable.

    `binary`: a `cue` program for schemas beyond the built-in evaluator.
    """
    try:
        found = vetted(text, tree, file=file, schema_file=schema_file, binary=binary)
    except CueError as error:
        first = error.diagnostics[0]
        raise SchemaUnusable(f"{schema_file}:{first.line}: not evaluated [{first.code}]") from None
    said = [
        replace(one, code="schema_invalid", severity="warning", message=f"breaks it [{one.code}]")
        for one in found.diagnostics
    ]
    return said, _marks(found.attributes)


def _marks(attributes: Mapping[Path, tuple[Attribute, ...]]) -> Marks:
    secrets: dict[Path, str] = {}
    logged: set[Path] = set()
    for path, given in attributes.items():
        for attribute in given:
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
