"""CUE schemas, checked by the built-in evaluator."""

from __future__ import annotations

from kernel.complaints import Complaint
from kernel.reading.tree import Tree
from sync_stack.core.shaping.schema_marks import Marks, SchemaUnusable


def check_cue(
    text: str, tree: Tree, *, schema_file: str, file: str
) -> tuple[list[Complaint], Marks]:
    raise SchemaUnusable("CUE schemas are not evaluated by this build")
