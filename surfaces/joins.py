"""Which operation of which contract a mock simulates, and on which surface a contract is.

Mocks and contracts are joined across the whole suite: by the API contract and the operation that a
mock names, otherwise by the id of the operation, otherwise by method and path.
(reference: control-plane 6.2)
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import chain, count
from typing import Final

from surfaces.contracts import Contract, ContractOperation, Sources, identifier
from surfaces.mock_files.contract_names import ContractName, grpc_names
from surfaces.mock_files.metadata_files import INVALID, MetadataFile
from surfaces.model import SHARED_ROUTES, Adapter, adapter_of

AMBIGUOUS: Final = "mock_contract_ambiguous"
TWICE: Final = "mock_duplicate_operation"
DEFAULT_SURFACE: Final = "default"
_TEMPLATE: Final = re.compile(r"\{[^{}]*\}")
_SEPARATORS: Final = re.compile(r"[-_]")


def fold_id(operation_id: str) -> str:
    """Return an id as it is compared: ignoring case, `-` and `_`."""
    return _SEPARATORS.sub("", operation_id).casefold()


@dataclass(slots=True)
class OperationIndex:
    """The operations of a contract, to be found by id or by route."""

    contract: Contract
    number: int
    by_id: dict[str, ContractOperation] = field(default_factory=dict)
    by_route: dict[tuple[str, str], ContractOperation] = field(default_factory=dict)
    order: dict[int, int] = field(default_factory=dict)  # of an operation, by its identity

    def __post_init__(self) -> None:
        for number, each in enumerate(self.contract.operations):
            self.by_id.setdefault(fold_id(each.operation_id), each)
            self.by_route.setdefault((each.method, _TEMPLATE.sub("{}", each.path)), each)
            self.order[id(each)] = number
        if adapter_of(self.contract.protocol) == "grpc":
            for each in self.contract.operations:
                self.by_route.setdefault((each.method, f"/{each.path}"), each)
                for name in grpc_names(each.path):
                    self.by_id.setdefault(fold_id(name), each)

    def route(self, operation: ContractOperation) -> tuple[str, ...]:
        """Return what no two operations of a surface may share."""
        shares = self.contract.protocol in SHARED_ROUTES or self.adapter == "async"
        own = operation.operation_id if shares else ""
        return (self.adapter, operation.method, _TEMPLATE.sub("{}", operation.path), own)

    def routes(self) -> Iterator[tuple[tuple[str, ...], ContractOperation]]:
        for each in self.contract.operations:
            yield self.route(each), each

    @property
    def adapter(self) -> Adapter:
        return adapter_of(self.contract.protocol)

    def find(self, mock: MetadataFile) -> ContractOperation | None:
        """Return the operation of a mock: the one that it names, by id, otherwise by route."""
        named = None
        if mock.names.fragment and mock.names.file == self.contract.path:
            named = self.find_by_name(mock.names)
        by_id = named or self.by_id.get(fold_id(mock.operation_id))
        return by_id or self._by_route(mock.method, mock.route)

    def find_by_name(self, names: ContractName) -> ContractOperation | None:
        """Return the operation that `contractPath` names."""
        if names.path:
            return self._by_route(names.method, names.path)
        found = self.by_id.get(fold_id(names.operation))
        full = (each for each in self.contract.operations if each.path == names.operation)
        return found or next(full, None)

    def _by_route(self, method: str, path: str) -> ContractOperation | None:
        route = (method or "POST", _TEMPLATE.sub("{}", path.strip()))
        return self.by_route.get(route) if path else None


@dataclass(frozen=True, slots=True)
class OperationMatch:
    """An operation of a contract that a mock may simulate."""

    index: OperationIndex
    found: ContractOperation


@dataclass(frozen=True, slots=True)
class Join:
    """The API contract of a mock, whose operations do not have that of the mock."""

    index: OperationIndex | None
    found: None = None


class Joins:
    """The joins of all mocks of a suite (`joined`), and the surface of each contract (`homes`).

    What cannot be joined as it is written is a warning.
    """

    def __init__(
        self, indexes: Sequence[OperationIndex], mocks: Sequence[MetadataFile], sources: Sources
    ) -> None:
        self._indexes = indexes
        self._mocks = mocks
        self._sources = sources
        self._by_path = {index.contract.path: index for index in indexes}
        listed = [self._candidates(mock) for mock in mocks]
        sure = {
            (mock.surface, found[0].index.number)
            for mock, found in zip(mocks, listed, strict=True)
            if len(found) == 1
        }
        self._found = [
            self._choose(mock, found, sure) for mock, found in zip(mocks, listed, strict=True)
        ]
        self.homes = self._homes()
        self._part_versions()
        self.joined = [
            join or Join(self._contract_of(mock))
            for mock, join in zip(mocks, self._found, strict=True)
        ]

    def _candidates(self, mock: MetadataFile) -> list[OperationMatch]:
        """Return what a mock may belong to: of the API contract that it names, otherwise of all."""
        named = self._by_path.get(mock.names.file)
        if named is None:
            if mock.names.file and mock.names.file not in self._sources.files:
                detail = (
                    f'the {mock.names.key} "{mock.names.file[:200]}" is not a file of the suite'
                )
                self._sources.warnings.add(INVALID, detail, mock.names.source, mock.names.at)
            fitting = [index for index in self._indexes if _fits(mock, index)]
        else:
            self._check_operation(mock, named)
            fitting = [named]
        matches = ((index, index.find(mock)) for index in fitting)
        return [OperationMatch(index, found) for index, found in matches if found is not None]

    def _choose(
        self, mock: MetadataFile, listed: Sequence[OperationMatch], sure: Set[tuple[str, int]]
    ) -> OperationMatch | None:
        """Return the match of a mock, of its own surface if there is one; warn of a choice.

        `sure` are the surfaces of mocks with one match, with the number of its contract.
        """
        if not listed:
            return None
        wanted = fold_id(mock.operation_id)
        tiers = (
            [each for each in listed if each.index.contract.name == mock.surface],
            [each for each in listed if (mock.surface, each.index.number) in sure],
            [each for each in listed if fold_id(each.found.operation_id) == wanted],
            listed,
        )
        chosen = next(filter(None, tiers))
        if len(chosen) > 1:
            self._warn_of_choice(mock, chosen)
        return chosen[0]

    def _check_operation(self, mock: MetadataFile, named: OperationIndex) -> None:
        """Warn of `#operation` that the API contract does not have."""
        if not mock.names.fragment or named.find_by_name(mock.names) is not None:
            return
        known = ", ".join(each.operation_id for each in named.contract.operations[:10])
        detail = (
            f'the {mock.names.key} names "{mock.names.fragment[:200]}", which '
            f"{named.contract.path} does not declare; its operations: {known or 'none'}"
        )
        self._sources.warnings.add(INVALID, detail, mock.names.source, mock.names.at)

    def _homes(self) -> dict[int, str]:
        """Return the surface of each contract: that of its mocks, otherwise its own."""
        homes: dict[int, str] = {}
        protocols: dict[str, str] = {}
        for index in self._indexes:
            home = self._mocked_home(index, protocols)
            if not home:
                home = identifier(index.contract.name, DEFAULT_SURFACE)
                if protocols.get(home, index.contract.protocol) != index.contract.protocol:
                    home = f"{home[:100]}-{identifier(index.contract.protocol.lower())}"
            homes[index.number] = home
            protocols.setdefault(home, index.contract.protocol)
        return homes

    def _part_versions(self) -> None:
        """Give a contract whose routes its surface has of another one a surface of its own.

        Such contracts are two versions or forms of one API. Those of mocks stay.
        """
        joined = {match.index.number for match in self._found if match}
        named = {mock.names.file for mock in self._mocks}
        mocked = {each.number for each in self._indexes if each.contract.path in named} | joined
        taken: dict[tuple[str, ...], str] = {}
        for index in sorted(self._indexes, key=lambda each: each.number not in mocked):
            home = self.homes[index.number]
            routes = {(home, *route): each for route, each in index.routes()}
            twice = next((each for route, each in routes.items() if route in taken), None)
            if twice is not None and index.number not in mocked:
                first = taken[home, *index.route(twice)]
                own = self.homes[index.number] = self._free_home(index)
                detail = (
                    f'the surface "{home}" has {twice.method} {twice.path[:200]} of {first}; the '
                    f'operations of this contract are on the surface "{own}"'
                )
                path = index.contract.path
                self._sources.warnings.add_at(TWICE, detail, path, twice.line, twice.column)
                routes = {(own, *route): each for route, each in index.routes()}
            for route in routes:
                taken.setdefault(route, index.contract.path)

    def _free_home(self, index: OperationIndex) -> str:
        taken = {*self.homes.values(), *(mock.surface for mock in self._mocks)}
        name = identifier(index.contract.name, DEFAULT_SURFACE)[:120]
        numbered = (f"{name}-{number}" for number in count(2))
        others = map(identifier, index.contract.other_names)
        return next(each for each in chain(others, numbered) if each not in taken)

    def _mocked_home(self, index: OperationIndex, protocols: Mapping[str, str]) -> str:
        contract = index.contract
        named = Counter(mock.surface for mock in self._mocks if mock.names.file == contract.path)
        if named:
            return named.most_common(1)[0][0]

        def suits(surface: str) -> bool:
            return protocols.get(surface, contract.protocol) == contract.protocol

        free = {mock.surface for mock in self._mocks if mock.names.file not in self._by_path}
        if contract.name in free and suits(contract.name):
            return contract.name
        joined = Counter(
            mock.surface
            for mock, match in zip(self._mocks, self._found, strict=True)
            if match and match.index is index
        )
        return next((surface for surface, _ in joined.most_common() if suits(surface)), "")

    def _contract_of(self, mock: MetadataFile) -> OperationIndex | None:
        """Return the API contract of a mock without operation: the named one, or of its surface."""
        named = self._by_path.get(mock.names.file)
        homes = (each for each in self._indexes if self.homes[each.number] == mock.surface)
        return named or next(homes, None)

    def _warn_of_choice(self, mock: MetadataFile, chosen: Sequence[OperationMatch]) -> None:
        """Warn that several contracts declare the operation, and say how to name one."""
        paths = [match.index.contract.path for match in chosen]
        detail = (
            f'"{mock.operation_id[:80]}" is an operation of {" and of ".join(paths[:5])}; '
            f'{paths[0]} is used; to choose, write metadata.sourceArtifact, as in "{paths[0]}"'
        )
        self._sources.warnings.add(AMBIGUOUS, detail, mock.path or mock.mock_path, mock.tree)


def _fits(mock: MetadataFile, index: OperationIndex) -> bool:
    """Return whether a mock of this adapter may simulate operations of the API contract."""
    wanted = mock.spec.adapter or (adapter_of(mock.protocol) if mock.protocol else None)
    return wanted is None or wanted == adapter_of(index.contract.protocol)
