"""One operation of a surface, from its metadata, its contract, and the rules for what is missing.

(reference: control-plane 6.2)
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from surfaces.contracts import Contract, ContractOperation
from surfaces.curl import curl_command
from surfaces.mock_files.metadata_files import MetadataFile, with_metadata
from surfaces.model import SHARED_ROUTES, Adapter, Exchange, Mock, Operation, adapter_of
from surfaces.samples import SampleBudget, Sampler

PROTOCOLS: Final = {"rest": "REST", "grpc": "gRPC", "async": "Async"}
_TEMPLATE: Final = re.compile(r"\{[^{}]*\}")
_RUNTIME: Final = re.compile(r"/mocks/(?:rest|grpc|async)/[^/]+/[^/?#]+(/[^?#]*)?")
_SAFE_IN_PATH: Final = "/{}:@!$&'()*+,;=-._~%"


@dataclass(frozen=True, slots=True)
class Addresses:
    """Where mocks of a suite are."""

    base_url: str
    suite_id: str

    def runtime(self, adapter: Adapter, surface_id: str, tail: str) -> str:
        return f"/mocks/{adapter}/{self.suite_id}/{surface_id}{tail}"

    def resolver(self, surface_id: str, operation_id: str) -> str:
        return f"/internal/mock-data/{self.suite_id}/{surface_id}/{operation_id}"

    def host(self, adapter: Adapter, surface_id: str) -> str:
        return self.absolute(self.runtime(adapter, surface_id, ""))

    def absolute(self, url: str) -> str:
        return f"{self.base_url}{url}" if url.startswith("/") else url


@dataclass(frozen=True, slots=True)
class SuiteContext:
    """What all operations of a suite share; `digest` is that of its content."""

    addresses: Addresses
    digest: str
    budget: SampleBudget


@dataclass(frozen=True, slots=True)
class OperationCandidate:
    """What an operation is made from: a mock, an operation of a contract, or both.

    `contract` without `found` is that of the surface. `order` is that of the files.
    """

    order: tuple[int, int]
    mock: MetadataFile | None
    contract: Contract | None
    found: ContractOperation | None

    @property
    def operation_id(self) -> str:
        if self.mock:
            return self.mock.operation_id
        return self.found.operation_id if self.found else ""

    @property
    def protocol(self) -> str:
        """The metadata's protocol, else that of a fitting contract, else the adapter's."""
        if self.mock and self.mock.protocol:
            return self.mock.protocol
        adapter = self.mock.spec.adapter if self.mock else None
        if self.contract and adapter in (None, adapter_of(self.contract.protocol)):
            return self.contract.protocol
        return PROTOCOLS[adapter or "rest"]

    @property
    def adapter(self) -> Adapter:
        return (self.mock.spec.adapter if self.mock else None) or adapter_of(self.protocol)

    def route(self, operation: Operation) -> tuple[str, ...]:
        """Return what no two operations of a surface may share."""
        shares = self.protocol in SHARED_ROUTES or self.adapter == "async"
        own = operation.operation_id if shares and self.found else ""
        path = _TEMPLATE.sub("{}", operation.path)
        return (operation.mock.adapter, operation.method, path, own)

    def position(self) -> tuple[str, int, int]:
        """Return the file and position to name in a warning."""
        if self.mock:
            tree = self.mock.tree
            return self.mock.path or self.mock.mock_path, tree.line, tree.column
        if self.contract and self.found:
            return self.contract.path, self.found.line, self.found.column
        return "", 0, 0


def build_operation(
    candidate: OperationCandidate,
    *,
    surface_id: str,
    operation_id: str,
    exchanges: tuple[Exchange, ...],
    context: SuiteContext,
) -> Operation:
    """Return the operation with every default filled in."""
    mock, found, adapter = candidate.mock, candidate.found, candidate.adapter
    addresses = context.addresses
    method, path = _route(candidate, operation_id)
    tail = quote(path, safe=_SAFE_IN_PATH) if adapter == "rest" else f"/{operation_id}"
    named = mock.spec.runtime_url if mock else ""
    runtime_url = named or addresses.runtime(adapter, surface_id, tail)
    url = addresses.absolute(runtime_url)
    first = exchanges[0] if exchanges else None
    seed = (surface_id, operation_id, first.name if first else "")
    sampler = Sampler(context.budget, context.digest, *seed)
    return Operation(
        operation_id=operation_id,
        method=method,
        name=found.name if found else path,
        path=path,
        summary=(mock.summary if mock else "") or (found.summary if found else ""),
        mock=_mock(candidate, addresses.resolver(surface_id, operation_id), runtime_url),
        mock_url=url,
        curl_command=curl_command(
            url,
            method if adapter == "rest" else "POST",
            contract=found,
            exchange=first,
            constraints=mock.spec.parameter_constraints if mock else (),
            sampler=sampler,
        ),
        contract_path=_contract_path(candidate),
        streaming=found.streaming if found else "",
        exchanges=exchanges,
        contract_examples=found.examples if found else None,
    )


def _route(candidate: OperationCandidate, operation_id: str) -> tuple[str, str]:
    """Return method and path: as said, of its contract, otherwise POST and the runtime URL's."""
    mock, found = candidate.mock, candidate.found
    method = (mock.method if mock else "") or (found.method if found else "POST")
    path = (mock.route if mock else "") or (found.path if found else "")
    if path:
        is_rest = candidate.adapter == "rest"
        return method, path if path.startswith("/") or not is_rest else f"/{path}"
    tail = _RUNTIME.search(mock.spec.runtime_url) if mock else None
    if candidate.adapter == "rest":
        return method, (tail[1] if tail and tail[1] else f"/{operation_id}")
    return method, operation_id


def _contract_path(candidate: OperationCandidate) -> str:
    """Return the API contract of the operation, or the one that its mock names; never a mock."""
    if candidate.found and candidate.contract:
        return candidate.contract.path
    named = candidate.mock.names.file if candidate.mock else ""
    return named if named.startswith("api/") else ""


def _mock(candidate: OperationCandidate, resolver_url: str, runtime_url: str) -> Mock:
    mock = candidate.mock
    if mock is None:
        return Mock(adapter=candidate.adapter, resolver_url=resolver_url, runtime_url=runtime_url)
    spec = mock.spec
    return Mock(
        adapter=candidate.adapter,
        resolver_url=spec.resolver_url or resolver_url,
        runtime_url=runtime_url,
        dispatcher=spec.dispatcher,
        dispatcher_rules=spec.dispatcher_rules,
        rules=mock.rules,
        delay=spec.delay,
        fault=spec.fault,
        rate_limit=spec.rate_limit,
        validate=spec.validate,
        constraints=spec.parameter_constraints,
        fallback=spec.fallback,
        state=spec.state,
        mock_path=mock.mock_path,
        metadata_path=mock.path or with_metadata(mock.mock_path),
    )
