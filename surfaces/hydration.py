"""From the files of a suite to its API surfaces: contracts and mocks joined, defaults filled in.

(reference: control-plane 6.2, 6.3, 9)
"""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice
from typing import Final

from kernel.errors import FileWarning
from kernel.ids import humanize
from readers.archive import content_digest
from readers.diagnostics import nearest_advice
from readers.tree import Kind, Tree
from surfaces.contract_formats.files import read_contracts
from surfaces.contracts import ContractOperation, Sources, identifier
from surfaces.forms import UNKNOWN_KEY, UNKNOWN_VALUE, is_near
from surfaces.joins import DEFAULT_SURFACE, TWICE, Joins, OperationIndex, fold_id
from surfaces.mock_files.exchanges import mock_tree, read_exchanges
from surfaces.mock_files.metadata_files import (
    EXTENSIONS,
    MetadataFile,
    SurfaceFile,
    file_stem,
    is_metadata,
    is_surface,
    read_metadata,
    read_surface,
    suite_mode,
    take_identity,
)
from surfaces.mock_files.mock_checks import check_examples
from surfaces.model import Exchange, Operation, Surface, adapter_of
from surfaces.operations import Addresses, OperationCandidate, SuiteContext, build_operation
from surfaces.records import MAX_LOOKED_AT
from surfaces.samples import SampleBudget
from surfaces.trees import Warnings, member

FOLDERS: Final = ("api/", "mock/")
MAX_EXCHANGE_TEXT: Final = 32 * 2**20  # characters of all exchanges of a suite
_RESOLVER: Final = re.compile(r"/internal/mock-data/[^/]+/([^/?#]+)")


def surfaces_of(
    files: Mapping[str, bytes], *, suite_id: str, base_url: str
) -> tuple[tuple[Surface, ...], tuple[FileWarning, ...]]:
    """Return the API surfaces by id, and what is wrong in api/ and mock/; never raise.

    The result depends on the files, `suite_id` and `base_url` only.
    """
    if not any(path.startswith(FOLDERS) for path in files):
        return (), ()
    warnings = Warnings()
    sources = Sources(files, warnings)
    addresses = Addresses(base_url, suite_id)
    hydration = _Hydration(sources, addresses, content_digest(files))
    return hydration.surfaces(), warnings.list_warnings()


class _Names:
    """The ids of a surface; one that is taken gets a number."""

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._numbers: Counter[str] = Counter()

    def unique(self, name: str) -> str:
        made = name
        while made in self._taken:
            self._numbers[name] += 1
            made = f"{name[:120]}-{self._numbers[name] + 1}"
        self._taken.add(made)
        return made


class _Hydration:
    def __init__(self, sources: Sources, addresses: Addresses, digest: str) -> None:
        self.sources = sources
        self.context = SuiteContext(addresses, digest, SampleBudget())
        self.exchange_budget = MAX_EXCHANGE_TEXT
        self.indexes = [
            OperationIndex(contract, number)
            for number, contract in enumerate(read_contracts(sources))
        ]
        self.read: dict[tuple[str, bool], tuple[Exchange, ...]] = {}
        self.suite_mode = suite_mode(sources)
        self.surface_files: dict[str, SurfaceFile] = {}

    def surfaces(self) -> tuple[Surface, ...]:
        mocks = self._mocks()
        joins = Joins(self.indexes, mocks, self.sources)
        candidates: dict[str, list[OperationCandidate]] = {}
        taken: set[int] = set()
        for mock, join in zip(mocks, joins.joined, strict=True):
            if join.found is not None:
                taken.add(id(join.found))
            listed = candidates.setdefault(mock.surface, [])
            listed.append(self._candidate(mock, join.index, join.found))
        for index in self.indexes:
            operations = index.contract.operations
            left = [each for each in operations if id(each) not in taken]
            if operations and not left:
                continue  # all are on the surfaces of their mocks
            candidates.setdefault(joins.homes[index.number], []).extend(
                OperationCandidate(
                    (index.number, index.order[id(each)]), None, index.contract, each
                )
                for each in left
            )
        for surface_id, read in self.surface_files.items():
            if candidates and surface_id not in candidates:
                advice = nearest_advice(surface_id, sorted(candidates))
                detail = f'no surface is called "{surface_id[:80]}"; {advice[:400]}'
                self.sources.warnings.add(UNKNOWN_VALUE, detail, read.path, read.at)
        return tuple(
            self._surface(surface_id, candidates[surface_id]) for surface_id in sorted(candidates)
        )

    def _mocks(self) -> list[MetadataFile]:
        """Return the metadata files, and example files without metadata, by path."""
        files = self.sources.files
        listed = sorted(path for path in files if path.startswith("mock/"))
        named = [path for path in listed if is_metadata(path)]
        for path in named:
            if is_surface(path, self.sources):
                read = read_surface(path, self.sources)
                named_surface = identifier(read.surface or _folder_of(path), DEFAULT_SURFACE)
                self.surface_files[named_surface] = read
        found = [read_metadata(path, self.sources) for path in named
                 if not is_surface(path, self.sources)]  # fmt: skip
        for mock in found:
            self._normalize_mock_path(mock)
        used = {mock.mock_path for mock in found}
        found += [
            MetadataFile(path="", operation_id=file_stem(path), mock_path=path)
            for path in listed
            if not is_metadata(path) and path not in used and self._is_example_file(path)
        ]
        for mock in found:
            if mock.mock_path in files:
                take_identity(mock, mock_tree(mock.mock_path, self.sources))
            mock.surface = self._surface_of(mock)
        return found

    def _normalize_mock_path(self, mock: MetadataFile) -> None:
        """Take another extension where the file of the reference does not exist."""
        path = posixpath.normpath(mock.mock_path).lstrip("/")
        known = next((end for end in EXTENSIONS if path.lower().endswith(end)), "")
        stem = path[: len(path) - len(known)]
        for candidate in (path, *(f"{stem}{end}" for end in EXTENSIONS)):
            if candidate in self.sources.files:
                mock.mock_path = candidate
                return
        if mock.spec.mock_path:
            detail = f'the mockPath "{mock.mock_path[:200]}" is not a file of the suite'
            at = member(mock.at, "mockPath")
            self.sources.warnings.add("mock_examples_invalid", detail, mock.path, at)

    def _is_example_file(self, path: str) -> bool:
        lower = path.lower()
        if lower.endswith(".cue"):
            stem = fold_id(file_stem(path))
            return any(stem in index.by_id for index in self.indexes)
        if not lower.endswith(EXTENSIONS):
            return False
        document = mock_tree(path, self.sources)
        listed = member(document, "examples")
        if listed is None:
            self._warn_of_misspelling(path, document)
        return listed is not None and listed.kind in (Kind.MAP, Kind.LIST)

    def _warn_of_misspelling(self, path: str, document: Tree) -> None:
        """Warn of `exampels`, without which a file is none of examples."""
        for name, value in islice(document.pairs.items(), MAX_LOOKED_AT):
            holds_mappings = all(
                each.kind is Kind.MAP for each in (*value.items, *value.pairs.values())
            )
            is_container = value.kind in (Kind.MAP, Kind.LIST) and holds_mappings
            if is_container and is_near(name, ("examples",)):
                detail = f'the file has no key "{name[:40]}"; did you mean examples?'
                self.sources.warnings.add(UNKNOWN_KEY, detail, path, value)

    def _surface_of(self, mock: MetadataFile) -> str:
        """Return the surface: as named, of the resolver URL, the first folder, or `default`."""
        named = mock.surface
        if not named and (segment := _RESOLVER.search(mock.spec.resolver_url)):
            named = segment[1]
        if not named:
            named = _folder_of(mock.path or mock.mock_path)
        surface = identifier(named, DEFAULT_SURFACE)
        if mock.surface and surface != mock.surface:
            detail = f'"{mock.surface[:80]}" is not a valid surface id; "{surface}" is used'
            self.sources.warnings.add("mock_metadata_invalid", detail, mock.path, mock.tree)
        return surface

    def _candidate(
        self, mock: MetadataFile, index: OperationIndex | None, found: ContractOperation | None
    ) -> OperationCandidate:
        if index is None or found is None:
            order = (len(self.indexes), 0)
            return OperationCandidate(order, mock, index.contract if index else None, None)
        return OperationCandidate(
            (index.number, index.order[id(found)]), mock, index.contract, found
        )

    def _surface(self, surface_id: str, candidates: list[OperationCandidate]) -> Surface:
        ordered = sorted(candidates, key=lambda each: each.order)
        operations = tuple(self._operations(surface_id, ordered))
        contract = next((each.contract for each in ordered if each.contract), None)
        titles = [each.mock.surface_title for each in ordered if each.mock]
        title = next(filter(None, titles), "") or (contract.title if contract else "")
        protocol = next((each.protocol for each in ordered), "REST")
        return Surface(
            surface_id=surface_id,
            title=title or humanize(surface_id) or surface_id,
            protocol=protocol,
            mock_host=self.context.addresses.host(adapter_of(protocol), surface_id),
            description=contract.description if contract else "",
            operations=operations,
        )

    def _operations(
        self, surface_id: str, candidates: list[OperationCandidate]
    ) -> Iterator[Operation]:
        routes: dict[tuple[str, ...], str] = {}
        names = _Names()
        mocked_first = sorted(candidates, key=lambda each: each.mock is None)
        chosen: list[tuple[OperationCandidate, Operation]] = []
        for candidate in mocked_first:
            operation = self._operation(surface_id, candidate, names)
            route = candidate.route(operation)
            if route in routes:
                self._warn_of_duplicate(candidate, operation, routes[route])
                continue
            routes[route] = operation.operation_id
            chosen.append((candidate, operation))
        yield from (operation for _, operation in sorted(chosen, key=lambda each: each[0].order))

    def _warn_of_duplicate(
        self, candidate: OperationCandidate, operation: Operation, first: str
    ) -> None:
        shown = f"{operation.method} {operation.name}"[:200]
        detail = f'{shown} is left out: the operation "{first}" has the same method and path'
        self.sources.warnings.add_at(TWICE, detail, *candidate.position())

    def _operation(
        self, surface_id: str, candidate: OperationCandidate, names: _Names
    ) -> Operation:
        operation_id = names.unique(identifier(candidate.operation_id))
        exchanges = self._exchanges(candidate)
        operation = build_operation(
            candidate,
            surface_id=surface_id,
            operation_id=operation_id,
            exchanges=exchanges,
            context=self.context,
        )
        rules = self.surface_files.get(surface_id, SurfaceFile()).spec
        problems: tuple[str, ...] = ()
        if candidate.mock is not None:
            problems = check_examples(
                candidate.mock, exchanges, self.sources.warnings, candidate.adapter
            )
        mock = replace(
            operation.mock,
            problems=problems,
            validate=operation.mock.validate or rules.validate or self.suite_mode,
            surface_limit=rules.rate_limit,
        )
        return replace(operation, mock=mock)

    def _exchanges(self, candidate: OperationCandidate) -> tuple[Exchange, ...]:
        mock = candidate.mock
        if mock is None or mock.mock_path not in self.sources.files:
            return ()
        key = (mock.mock_path, candidate.adapter == "grpc")
        if key not in self.read:
            self.read[key] = read_exchanges(mock.mock_path, self.sources, grpc=key[1])
        found = self.read[key]
        self.exchange_budget -= sum(
            1_000 + len(each.response.content or each.response.body or "") for each in found
        )
        if self.exchange_budget < 0:
            detail = "the examples of this suite are too large together; these are left out"
            self.sources.warnings.add_at("limit_exceeded", detail, mock.mock_path)
            return ()
        return found


def _folder_of(path: str) -> str:
    """Return the first folder below mock/, else the default surface."""
    return next(iter(path.split("/")[1:-1]), DEFAULT_SURFACE)
