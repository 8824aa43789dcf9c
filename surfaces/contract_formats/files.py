"""The files of api/ by their format."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from kernel.extras import missing_extra
from kernel.ids import slug
from surfaces.contract_formats.asyncapi import read_asyncapi
from surfaces.contract_formats.mistakes import warn_of_mistakes
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
_VERSION: Final = re.compile(r"v\d+", re.IGNORECASE)
_LETTER: Final = re.compile("[A-Za-z]")


def read_contracts(sources: Sources) -> list[Contract]:
    """Return the contracts by path; other documents (shared schemas) are none."""
    paths = sorted(path for path in sources.files if path.startswith("api/"))
    found = list(_documents(paths, sources))
    protos = [path for path in paths if path.lower().endswith(".proto")]
    if protos and (missing := missing_extra("grpc")):
        sources.warnings.add_at("contract_unsupported", f"a .proto file {missing}", protos[0])
    elif protos:
        from surfaces.contract_formats.protobuf import read_protos  # its library, too

        found += read_protos(sources)
    ordered = sorted(found, key=lambda contract: contract.path)
    made = []
    for contract in ordered:
        name, *others = _names(contract)
        made.append(replace(contract, name=name, other_names=tuple(others)))
    return made


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
    warn_of_mistakes(path, sources)
    if "openapi" in document.pairs or "swagger" in document.pairs:
        return read_openapi(path, document, sources)
    return read_asyncapi(path, document, sources) if "asyncapi" in document.pairs else None


def _names(contract: Contract) -> tuple[str, ...]:
    """Return the name of a contract, and what tells it from others of that name.

    The name is the first folder that says something, otherwise what does so of the file's stem,
    otherwise the title.
    """
    *folders, file = contract.path.split("/")[1:]
    stem, _, extension = file.rpartition(".")
    pieces = [each for each in stem.split(".") if not _GENERIC.match(each)]
    kept = next((each for each in folders if each and not _GENERIC.match(each)), "-".join(pieces))
    name = slug(kept) if _LETTER.search(kept) else slug(contract.title) or slug(stem)
    versions = [each for each in (*folders, *stem.split(".")) if _VERSION.match(each)]
    whole = "/".join((*folders, stem))
    return (
        name,
        *(slug(f"{name}-{each}") for each in versions),
        slug(whole),
        slug(f"{whole}-{extension}"),
    )
