"""Contracts of a suite: what `api/**` declares, in one form for every format."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

import msgspec

from readers import Unreadable
from readers.tree import Kind, Tree
from surfaces.contract_formats.swagger import is_swagger, openapi_of_swagger
from surfaces.json_documents import JsonDocuments
from surfaces.model import ContractExamples
from surfaces.trees import MAX_CONTRACTS, MAX_MOCKS, NOTHING, Warnings, read_tree

MAX_OPERATIONS: Final = 5_000  # of a suite
MAX_BODY: Final = 4_096  # characters of a sample
MAX_CUE_FILES: Final = 64  # each may take some seconds to evaluate
MAX_SAMPLED: Final = 100_000  # values in the samples of all requests
INVALID: Final = "contract_invalid"
_NOT_IDENTIFIER: Final = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """A parameter that a request must have, with a value that suits it."""

    name: str
    source: str
    sample: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ContractOperation:
    """An operation of a contract.

    `path` is the template of a REST path, a channel or `package.Service/Method`. `body` is a
    sample of the request, None if it has none. `examples` are what it answers.
    """

    operation_id: str
    method: str
    name: str
    path: str
    summary: str = ""
    parameters: tuple[Parameter, ...] = ()
    body: str | None = None
    media_type: str = ""
    streaming: str = ""
    line: int = 0
    column: int = 0
    examples: ContractExamples | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Contract:
    """A contract file; `name` is what its surface is called if no mock says so.

    `other_names` tell it from other contracts of that name.
    """

    path: str
    protocol: str
    title: str = ""
    name: str = ""
    other_names: tuple[str, ...] = ()
    description: str = ""
    operations: tuple[ContractOperation, ...] = ()


@dataclass(slots=True)
class Sources:
    """The files of a suite, each document read once.

    `contract_budget` and `mock_budget` are how many bytes of api/ and mock/ may still be read,
    `operations` how many may still be found, and `sampled` how many values samples may still have.
    """

    files: Mapping[str, bytes]
    warnings: Warnings
    contract_budget: int = MAX_CONTRACTS
    mock_budget: int = MAX_MOCKS
    operations: int = MAX_OPERATIONS
    sampled: int = MAX_SAMPLED
    cue_files: int = MAX_CUE_FILES
    trees: dict[str, Tree] = field(default_factory=dict)
    written: dict[str, Tree] = field(default_factory=dict)  # before conversion
    documents: JsonDocuments = field(init=False)

    def __post_init__(self) -> None:
        self.documents = JsonDocuments(self.files)

    def text(self, path: str) -> str:
        """Return the text of a file; "" once too much was read."""
        content = self.files.get(path, b"")
        if not self._take(path, len(content)):
            limit = "contracts beyond 32 MiB" if path.startswith("api/") else "mocks beyond 8 MiB"
            self.warnings.add_at("limit_exceeded", f"{limit} are not read", path)
            return ""
        return content.decode(errors="replace")

    def _take(self, path: str, size: int) -> bool:
        """Return whether there is room for so many bytes more, and take it."""
        if path.startswith("api/"):
            fits = size <= self.contract_budget
            self.contract_budget -= size if fits else 0
        else:
            fits = size <= self.mock_budget
            self.mock_budget -= size if fits else 0
        return fits

    def tree(self, path: str, code: str = INVALID) -> Tree:
        """Return the document of a YAML or JSON file; an unreadable one is a warning.

        A document of Swagger 2 has the form of OpenAPI 3.0.
        """
        if path not in self.trees:
            made = written = self.trees[path] = self.written_tree(path, code)
            if path.startswith("api/"):
                if is_swagger(written):
                    made = openapi_of_swagger(path, written, self.written_tree, self.warnings)
                    self.trees[path] = made
                if made is not written or not path.lower().endswith(".json"):
                    self._encode(path, made)
        return self.trees[path]

    def written_tree(self, path: str, code: str = INVALID) -> Tree:
        """Return the document as it is written; an unreadable one is a warning."""
        if path not in self.written:
            self.written[path] = NOTHING
            try:
                self.written[path] = read_tree(self.text(path), path)
            except Unreadable as error:
                self.warnings.add_unreadable(code, path, error)
        return self.written[path]

    def _encode(self, path: str, tree: Tree) -> None:
        """Keep a document as JSON for its examples."""
        value = tree.plain()
        try:
            self.documents.encoded[path] = msgspec.json.encode(value)
        except OverflowError:  # a number of more than 64 bits
            with suppress(ValueError):  # an infinity: read again
                self.documents.encoded[path] = json.dumps(value, allow_nan=False).encode()

    def take_operation(self, path: str) -> bool:
        """Return whether one more operation may be listed; warn at the first that may not."""
        self.operations -= 1
        if self.operations == -1:
            detail = f"only the first {MAX_OPERATIONS} operations are listed"
            self.warnings.add_at("limit_exceeded", detail, path)
        return self.operations >= 0


def identifier(text: str, otherwise: str = "operation") -> str:
    """Return the text as an identifier of the API: other characters become `-`."""
    made = _NOT_IDENTIFIER.sub("-", text).strip("-._")[:128]
    return made or otherwise


def bounded_body(text: str) -> str:
    """Return the sample of a body, "" if it is too large for a command."""
    return text if len(text) <= MAX_BODY else ""


def wrong_type(tree: Tree | None, kind: Kind) -> bool:
    return tree is not None and tree.kind is not kind
