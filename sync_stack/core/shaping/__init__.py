"""From files to flat settings: pure, the same input gives the same bytes.

(reference: sync-stack 4.5, 4.6)
"""

from sync_stack.core.file_errors import ShapingError
from sync_stack.core.shaping.leaves import Leaf, flat_values, flatten
from sync_stack.core.shaping.model import (
    Shaped,
    ShapedFile,
    ShapedKey,
    ShapingRules,
    SourceFile,
    environments_of,
)
from sync_stack.core.shaping.pipeline import shape
from sync_stack.core.shaping.schema import Schema, Unfetched, find_schema, schema_names
from sync_stack.core.shaping.secrets import HIDDEN, SecretRules

__all__ = [
    "HIDDEN",
    "Leaf",
    "Schema",
    "SecretRules",
    "Shaped",
    "ShapedFile",
    "ShapedKey",
    "ShapingError",
    "ShapingRules",
    "SourceFile",
    "Unfetched",
    "environments_of",
    "find_schema",
    "flat_values",
    "flatten",
    "schema_names",
    "shape",
]
