"""Short ways to shape a text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sync_stack.core.formats import detect
from sync_stack.core.shaping.model import Shaped, ShapingRules, SourceFile
from sync_stack.core.shaping.pipeline import shape
from sync_stack.core.shaping.schema import Schema


def source(text: str, *, file: str = "app.yaml", schema: Schema | None = None) -> SourceFile:
    tree = detect(file).parse(text.encode(), file=file)
    return SourceFile(file=file, tree=tree, schema=schema)


class Shaper:
    def __init__(self, **fields: Any) -> None:
        self.rules = ShapingRules(**fields)

    def shape(self, files: Sequence[SourceFile]) -> Shaped:
        return shape(files, self.rules)


def rules(**fields: Any) -> Shaper:
    """Rules for the environment production of a rule that also names staging."""
    environments = fields.pop("environments", {"staging", "production"})
    environment = fields.pop("environment", "production")
    return Shaper(environment=environment, environments=frozenset(environments), **fields)


def shaped(
    text: str, *, file: str = "app.yaml", schema: Schema | None = None, **fields: Any
) -> Shaped:
    return rules(**fields).shape([source(text, file=file, schema=schema)])
