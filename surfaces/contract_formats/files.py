"""The files of api/ by their format."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from kernel.ids import slug
from surfaces.contract_formats.asyncapi import read_asyncapi
from surfaces.contract_formats.openapi import read_openapi
from surfaces.contract_formats.wsdl import read_wsdl
from surfaces.contracts import Contract, Sources

_DOCUMENTS: Final = (".yaml", ".yml", ".json")
_GRAPHQL: Final = (".graphql", ".graphqls", ".gql")
_GENERIC: Final = re.compile(
    r"^(?:v\d+.*|api|openapi|swagger|asyncapi|graphql|grpc|proto|soap|wsdl|rest|schema|schemas"
    r"|service|services|contract|contracts|spec|specs|index|main)\Z",
    re.IGNORECASE,
)


def read_contracts(sources: Sources) -> list[Contract]:
    """Return the contracts by path; other documents (shared schemas) are none."""
    paths = sorted(path for path in sources.files if path.startswith("api/"))
    found = list(_documents(paths, sources))
    if any(path.lower().endswith(".proto") for path in paths):
        from surfaces.contract_formats.protobuf import read_protos  # its library, too

        found += read_protos(sources)
    ordered = sorted(found, key=lambda contract: contract.path)
    return [replace(contract, name=_name(contract)) for contract in ordered]


def _documents(paths: list[str], sources: Sources) -> Iterator[Contract]:
    for path in paths:
        contract: Contract | None = None
        if path.lower().endswith(_DOCUMENTS):
            contract = _document(path, sources)
        elif path.lower().endswith(_GRAPHQL):
            from surfaces.contract_formats.graphql import (
                read_graphql,  # its library is slow to import
            )

            contract = read_graphql(path, sources)
        elif path.lower().endswith(".wsdl"):
            contract = read_wsdl(path, sources)
        if contract is not None:
            yield contract


def _document(path: str, sources: Sources) -> Contract | None:
    document = sources.tree(path)
    if "openapi" in document.pairs or "swagger" in document.pairs:
        return read_openapi(path, document, sources)
    return read_asyncapi(path, document, sources) if "asyncapi" in document.pairs else None


def _name(contract: Contract) -> str:
    """Return the first part of the path that says something, otherwise the title."""
    *folders, file = contract.path.split("/")[1:]
    stem = file.rpartition(".")[0]
    parts = [*folders, *re.split(r"[.]", stem)]
    for part in parts:
        if part and not _GENERIC.match(part):
            return slug(part)
    return slug(contract.title) or slug(stem)
