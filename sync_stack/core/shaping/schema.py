"""The check of a file's tree against its schema, and the keys that it marks.

(reference: sync-stack 4.6)
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from cue import CueError, vet_with_attributes
from readers.diagnostics import Diagnostic
from readers.tree import Attribute, Tree
from sync_stack.core.file_errors import ShapingError
from sync_stack.core.shaping.leaves import Path
from sync_stack.core.shaping.schema_json import Marks, SchemaUnusable, check_json

MAX_WARNINGS: Final = 20
SECRET_WORDS: Final = ("x-partita-secret", "@secret")
_SUFFIXES: Final = (".schema.json", ".cue")
_REFERENCE: Final = re.compile(r'\s*ref\s*=\s*"([^"#]+#[^"#]+)"\s*')


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """The text of a schema file; its name says which kind it is."""

    file: str
    text: str
    cue_binary: str = ""  # a cue program for what the built-in evaluator does not read

    @property
    def is_cue(self) -> bool:
        return self.file.endswith(".cue")


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """`validation`: ok, warn or none (no schema, or one that cannot be evaluated)."""

    validation: str = "none"
    marks: Marks = field(default_factory=Marks)
    warnings: tuple[Diagnostic, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Unfetched:
    """There may be a schema: the registry could not be read."""

    reason: str


def schema_names(file: str) -> tuple[str, ...]:
    """Return the names of a file's schema in the registry, by precedence.

    `config/app.yaml` is looked up under `app.yaml` as well as `app`.
    """
    name = file.rsplit("/", 1)[-1]
    stem = name.rpartition(".")[0]
    bases = [name, stem] if stem else [name]
    return tuple(f"{base}{suffix}" for base in [*bases, "default"] for suffix in _SUFFIXES)


def find_schema(file: str, available: Collection[str], *, central_file: str = "") -> str | None:
    """Return the name of the schema among those available, or None.

    `central_file`: the bundle's file_name, which counts when the repository names another file.
    """
    return next((name for name in schema_names(central_file or file) if name in available), None)


def check_schema(
    tree: Tree, schema: Schema | Unfetched | None, *, file: str, strict: bool, secrets: bool = False
) -> Checked:
    """Check the tree; when strict, raise ShapingError: `schema_invalid` or `schema_unavailable`.

    `secrets`: the rule has a secret manager, so a schema that was not fetched might mark secrets.
    """
    if schema is None:
        return Checked()
    if isinstance(schema, Unfetched):
        return _unusable(file, schema.reason, strict=strict, secrets=secrets)
    marked = any(word in schema.text for word in SECRET_WORDS)
    try:
        diagnostics, marks = _check(schema, tree, file)
    except SchemaUnusable as error:
        return _unusable(schema.file, str(error), strict=strict, secrets=marked)
    if not diagnostics:
        return Checked(validation="ok", marks=marks)
    diagnostics = sorted(diagnostics, key=Diagnostic.order)
    if strict or (marked and schema.is_cue):  # which of its values are secret cannot be told
        raise _invalid(diagnostics)
    return Checked(validation="warn", marks=marks, warnings=tuple(diagnostics[:MAX_WARNINGS]))


def _check(schema: Schema, tree: Tree, file: str) -> tuple[list[Diagnostic], Marks]:
    place = {"schema_file": schema.file, "file": file}
    if schema.is_cue:
        return check_cue(schema.text, tree, **place, binary=schema.cue_binary)
    return check_json(schema.text, tree, **place)


def _unusable(file: str, reason: str, *, strict: bool, secrets: bool) -> Checked:
    """Return a warning; raise ShapingError when strict, or when keys may be secret."""
    if strict:
        raise ShapingError("schema_unavailable", reason, file=file)
    if secrets:
        detail = f"cannot tell which keys are secret: {reason}"
        raise ShapingError("secret_unavailable", detail, file=file)
    warning = Diagnostic(file=file, code="schema_unavailable", severity="warning", message=reason)
    return Checked(warnings=(warning,))


def _invalid(diagnostics: list[Diagnostic]) -> ShapingError:
    first = diagnostics[0]
    more = f" (and {len(diagnostics) - 1} more)" if len(diagnostics) > 1 else ""
    where = f"{first.path}: " if first.path else ""
    return ShapingError(
        "schema_invalid",
        f"{where}{first.message}{more}",
        file=first.file,
        line=first.line,
        column=first.column,
        diagnostics=diagnostics[:MAX_WARNINGS],
    )


def check_cue(
    text: str, tree: Tree, *, schema_file: str, file: str, binary: str = ""
) -> tuple[list[Diagnostic], Marks]:
    """Check `#Config` if the schema defines it, else the whole value, by the built-in evaluator.

    Return the errors in the tree, without values, and the schema's marks; raise SchemaUnusable.
    `binary`: a `cue` program for schemas beyond the built-in evaluator.
    """
    try:
        found = vet_with_attributes(text, tree, file=file, schema_file=schema_file, binary=binary)
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
