"""How a mock names its operation in a contract: `api/pay.yaml#/paths/~1payments~1{id}/get`.

Other forms of what follows `#`: the id of an operation, the full name of a gRPC method, and a
pointer such as `/operations/settle` of AsyncAPI 3, whose last part is the id.
"""

from __future__ import annotations

import posixpath
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote

from readers.json import unescape_pointer
from readers.tree import Tree
from surfaces.trees import NOTHING, member, text_of

NO_METHOD: Final = {"RPC": "POST", "EVENT": ""}  # what others write of gRPC and of channels
_VERBS: Final = ("get", "put", "post", "delete", "options", "head", "patch", "trace")
_ROUTE: Final = 3  # parts of a pointer to an operation of OpenAPI: paths, path, method


@dataclass(frozen=True, slots=True, kw_only=True)
class ContractName:
    """The API contract of a mock as it is written, and where; "" is what is not written.

    `key` is the field that names it. `method` and `path` are those of an OpenAPI pointer,
    `operation` is an id or a full name.
    """

    file: str = ""
    fragment: str = ""
    method: str = ""
    path: str = ""
    operation: str = ""
    key: str = ""
    source: str = ""
    at: Tree = NOTHING


NO_CONTRACT: Final = ContractName()


def read_contract_name(tree: Tree | None, key: str, source: str) -> ContractName:
    """Return what a `contractPath` or `sourceArtifact` at `key` of a map names."""
    value = member(tree, key)
    file, _, fragment = text_of(value).strip().partition("#")
    if value is None or not file:
        return NO_CONTRACT
    method, path, operation = _operation(fragment)
    return ContractName(
        file=posixpath.normpath(file).lstrip("/"),
        fragment=fragment,
        method=method,
        path=path,
        operation=operation,
        key=key,
        source=source,
        at=value,
    )


def method_of(text: str) -> str:
    """Return a method in capitals; that of HTTP for `RPC`, "" for `EVENT`."""
    method = text.strip().upper()[:20]
    return NO_METHOD.get(method, method)


def grpc_names(path: str) -> tuple[str, ...]:
    """Return what a gRPC method is called: `shop.v1.Orders/Get` and `Orders/Get`."""
    full = path.lstrip("/")
    service, slash, method = full.rpartition("/")
    return (full, f"{service.rpartition('.')[2]}/{method}") if slash else (full,)


def _operation(fragment: str) -> tuple[str, str, str]:
    """Return method and path of an OpenAPI pointer, otherwise the operation."""
    if not fragment.startswith("/"):
        verb, _, path = fragment.partition(" ")
        if verb.lower() in _VERBS and path.startswith("/"):
            return verb.upper(), path, ""
        return "", "", unquote(fragment)
    parts = [unescape_pointer(unquote(part)) for part in fragment[1:].split("/")]
    if parts[0] == "paths" and len(parts) == _ROUTE and parts[2].lower() in _VERBS:
        return parts[2].upper(), parts[1], ""
    return "", "", parts[-1]
