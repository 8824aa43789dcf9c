"""The JSON Schemas of the files of mock/, for editors: `partita mock schema metadata|examples`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from surfaces.forms import Schema
from surfaces.mock_files.exchanges import ExampleFile
from surfaces.mock_files.metadata_files import KINDS, MetadataKeys, SurfaceKeys
from surfaces.records import records_schema, reference


def metadata_schema() -> Schema:
    """Return the schema of `*.metadata.yaml`: of an operation, otherwise of a surface."""
    is_surface = {"properties": {"kind": {"const": KINDS[1]}}, "required": ["kind"]}
    return records_schema(MetadataKeys, SurfaceKeys) | {
        "title": "Metadata of a mock",
        "if": is_surface,
        "then": {"$ref": reference(SurfaceKeys)},
        "else": {"$ref": reference(MetadataKeys)},
    }


def examples_schema() -> Schema:
    """Return the schema of a file of examples."""
    made = records_schema(ExampleFile)
    return made | {"title": "Examples of a mock", "$ref": reference(ExampleFile)}


FILE_SCHEMAS: Final[Mapping[str, Callable[[], Schema]]] = {
    "metadata": metadata_schema,
    "examples": examples_schema,
}
