"""OpenAPI 3.0 and 3.1 contracts, and those of Swagger 2 once they are translated."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice
from typing import Final
from urllib.parse import quote

from kernel.ids import slug
from readers.tree import Kind, Tree
from surfaces.contract_examples.openapi_examples import OpenApiExamples
from surfaces.contract_examples.text_examples import intended_value
from surfaces.contracts import (
    Contract,
    ContractOperation,
    Parameter,
    Sources,
    bounded_body,
)
from surfaces.json_documents import Located
from surfaces.schemas import References, SchemaPlace, as_text, media_sample
from surfaces.trees import first_line, is_true, items, members, prose, text_of

METHODS: Final = ("get", "put", "post", "delete", "options", "head", "patch", "trace", "query")
SOURCES: Final = ("path", "query", "header", "cookie")
PROTOCOL: Final = "REST"
MAX_VALUE: Final = 200  # characters of the name or sample of a parameter
MAX_PARAMETERS: Final = 50  # of an operation, and media types of a body


def read_openapi(path: str, document: Tree, sources: Sources) -> Contract | None:
    """Return what the document declares; wrong parts are left out."""
    version = text_of(document.get("openapi"))
    if not version.startswith("3."):
        shown = f"OpenAPI {version}" if version else f"Swagger {text_of(document.get('swagger'))}"
        detail = f"{shown[:80]} is not supported; convert it to OpenAPI 3"
        sources.warnings.add("contract_unsupported", detail, path, document)
        return None
    reader = _OpenApiReader(path, sources)
    info = document.get("info")
    return Contract(
        path=path,
        protocol=PROTOCOL,
        title=first_line(info.get("title") if info else None),
        description=prose(info.get("description") if info else None),
        operations=tuple(reader.operations(SchemaPlace(document, path))),
    )


class _OpenApiReader:
    def __init__(self, path: str, sources: Sources) -> None:
        self.path = path
        self.sources = sources
        self.references = References(sources)

    def operations(self, document: SchemaPlace) -> Iterator[ContractOperation]:
        for template, listed in members(document.tree.get("paths")):
            item = self.references.resolve(SchemaPlace(listed, document.file))
            for method in METHODS if template.startswith("/") else ():
                operation = item.get(method)
                if operation.tree.kind is Kind.MAP and self.sources.take_operation(self.path):
                    yield self._operation(template, method, item, operation)

    def _operation(
        self, template: str, method: str, item: SchemaPlace, operation: SchemaPlace
    ) -> ContractOperation:
        tree = operation.tree
        media_type, body = self._body(operation)
        return ContractOperation(
            operation_id=text_of(tree.get("operationId")) or slug(f"{method} {template}"),
            method=method.upper(),
            name=template,
            path=template,
            summary=first_line(tree.get("summary")) or first_line(tree.get("description")),
            parameters=tuple(self._parameters(item, operation)),
            body=body,
            media_type=media_type,
            line=tree.line,
            column=tree.column,
            examples=OpenApiExamples(self.sources.documents, self.path, template, method),
        )

    def _parameters(self, item: SchemaPlace, operation: SchemaPlace) -> Iterator[Parameter]:
        """Yield the parameters that a request must have; those of the operation win."""
        found: dict[tuple[str, str], SchemaPlace] = {}
        for owner in (item, operation):
            for each in items(owner.tree.get("parameters"))[:MAX_PARAMETERS]:
                place = self.references.resolve(SchemaPlace(each, owner.file))
                key = (text_of(place.tree.get("in")), text_of(place.tree.get("name")))
                found[key] = place
        for (source, name), place in found.items():
            is_required = source == "path" or is_true(place.tree.get("required"))
            if is_required and source in SOURCES and 0 < len(name) <= MAX_VALUE:
                yield Parameter(name=name, source=source, sample=self._sample(name, place))

    def _sample(self, name: str, place: SchemaPlace) -> str:
        value = media_sample(self.references, place)
        if value in (None, "string"):
            return quote(name, safe="") or name
        text = as_text(value)
        return text if len(text) <= MAX_VALUE else name

    def _body(self, operation: SchemaPlace) -> tuple[str, str | None]:
        """Return the media type and a sample of the body, JSON if there is a choice."""
        request = self.references.resolve(operation.get("requestBody"))
        content = request.get("content")
        types = list(islice(content.tree.pairs, MAX_PARAMETERS))
        if not types:
            return "", None
        chosen = next((each for each in types if "json" in each.lower()), types[0])
        media = content.get(chosen)
        sample = media_sample(self.references, media)
        if isinstance(sample, str) and "json" not in chosen.lower():
            return chosen, bounded_body(sample)
        if sample is not None and ("json" in chosen.lower() or "*" in chosen):
            if isinstance(sample, str):
                schema = Located(media.get("schema").tree.plain(), media.file)
                sample = intended_value(self.sources.documents, sample, schema)
            return chosen, bounded_body(json.dumps(sample, ensure_ascii=False))
        if "form-urlencoded" in chosen and isinstance(sample, dict):
            pairs = (f"{quote(key)}={quote(as_text(value))}" for key, value in sample.items())
            return chosen, bounded_body("&".join(pairs))
        return chosen, ""
