"""A sample as XML, named by the `xml` objects of its schema (OpenAPI)."""

from __future__ import annotations

import re
from html import escape
from typing import Any, Final

from surfaces.contract_examples.flat_schemas import flatten_schemas
from surfaces.json_documents import JsonDocuments, Located
from surfaces.schemas import as_text
from surfaces.xml_bodies import quote_attribute

_NAME: Final = re.compile(r"[A-Za-z_][\w.-]*\Z")


def xml_text(documents: JsonDocuments, value: Any, schema: Located) -> str:
    """Return the document whose root is named by the schema or its reference."""
    reference = schema.value.get("$ref") if isinstance(schema.value, dict) else None
    named = reference.rpartition("/")[2] if isinstance(reference, str) else "root"
    writer = _Writer(documents)
    return f'<?xml version="1.0" encoding="UTF-8"?>{writer.element(named, value, [schema])}'


class _Writer:
    def __init__(self, documents: JsonDocuments) -> None:
        self.documents = documents

    def _own(self, schemas: list[Located]) -> dict[str, object]:
        for each in schemas:
            found = self.documents.resolve(each).members("xml")
            if found:
                return found
        return {}

    def element(self, name: str, value: Any, schemas: list[Located]) -> str:
        own = self._own(schemas)
        named = own.get("name")
        name = named if isinstance(named, str) else name
        name = name if _NAME.match(name) else "item"
        flat = flatten_schemas(self.documents, schemas)
        if isinstance(value, list):
            parts = "".join(self.element(name, each, flat.items) for each in value)
            return f"<{name}>{parts}</{name}>" if own.get("wrapped") is True else parts
        if not isinstance(value, dict):
            text = "" if value is None else as_text(value)
            return f"<{name}>{escape(text, quote=False)}</{name}>"
        attributes, parts = "", ""
        for key, each in value.items():
            below = flat.properties.get(key) or flat.additional
            if self._own(below).get("attribute") is True and not isinstance(each, dict | list):
                attribute = key if _NAME.match(key) else "item"
                attributes += f" {attribute}={quote_attribute(as_text(each))}"
            else:
                parts += self.element(key, each, below)
        return f"<{name}{attributes}>{parts}</{name}>"
