"""gRPC contracts: the services of `.proto` files."""

from __future__ import annotations

import json
import posixpath
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Final

from readers import Unreadable
from surfaces.contract_examples.message_examples import SampleExample
from surfaces.contract_formats.proto_reader import MAX_DEPTH, ProtoFile, ProtoReader
from surfaces.contracts import INVALID, Contract, ContractOperation, Sources

PROTOCOL: Final = "gRPC"
_MAX_SAMPLE_DEPTH: Final = 5
_MAX_SAMPLE_FIELDS: Final = 100
_SCALARS: Final[Mapping[str, Any]] = {
    "string": "string", "bytes": "", "bool": False, "double": 0.0, "float": 0.0,
    **dict.fromkeys(("int32", "uint32", "sint32", "fixed32", "sfixed32"), 0),
    **dict.fromkeys(("int64", "uint64", "sint64", "fixed64", "sfixed64"), "0"),
}  # fmt: skip
_WELL_KNOWN: Final[Mapping[str, Any]] = {
    "google.protobuf.Timestamp": "2024-01-31T12:00:00Z",
    "google.protobuf.Duration": "1s",
    "google.protobuf.Empty": {},
    "google.protobuf.Any": {},
    "google.protobuf.Struct": {},
    "google.protobuf.StringValue": "string",
    "google.protobuf.BytesValue": "",
    "google.protobuf.BoolValue": False,
    **{f"google.protobuf.{name}Value": 0 for name in ("Int32", "UInt32", "Float", "Double")},
    **{f"google.protobuf.{name}Value": "0" for name in ("Int64", "UInt64")},
    "google.protobuf.FieldMask": "",
    "google.protobuf.Value": "string",
    "google.protobuf.ListValue": [],
}


def read_protos(paths: list[str], sources: Sources) -> Iterator[Contract]:
    """Yield a contract for each file that declares a service."""
    files: dict[str, ProtoFile] = {}
    for path in paths:
        file = ProtoFile(path, sources.text(path))
        try:
            ProtoReader(file).read()
        except Unreadable as error:
            sources.warnings.add_unreadable(INVALID, path, error)
        files[path] = file
    known = _Declared(files)
    for file in files.values():
        known.warn_of_imports(file, sources)
        if file.services:
            yield Contract(
                path=file.path,
                protocol=PROTOCOL,
                operations=tuple(_operations(file, known, sources)),
            )


def _operations(file: ProtoFile, known: _Declared, sources: Sources) -> Iterator[ContractOperation]:
    names = Counter(method.name for methods in file.services.values() for method in methods)
    lines = _Lines(file.text)
    for service, methods in file.services.items():
        for method in methods:
            if not sources.take_operation(file.path):
                return
            full_name = f"{service}/{method.name}"
            line, column = lines.position(method.at)
            for used in (method.request, method.response):
                if not known.has(used, service):
                    detail = f"{full_name} uses {used[:200]}, which no file of api/ declares"
                    sources.warnings.add_at(INVALID, detail, file.path, line, column)
            short = service.rpartition(".")[2]
            yield ContractOperation(
                operation_id=method.name if names[method.name] == 1 else f"{short}.{method.name}",
                method="POST",
                name=full_name,
                path=full_name,
                summary=method.summary,
                body=json.dumps(known.sample(method.request, service, sources)),
                media_type="application/json",
                streaming=method.streaming,
                line=line,
                column=column,
                examples=SampleExample(file.path, partial(known.sample, method.response, service)),
            )


class _Lines:
    """Positions of a text, asked for in ascending order."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.line = 1
        self.at = 0

    def position(self, at: int) -> tuple[int, int]:
        if at >= self.at:
            self.line += self.text.count("\n", self.at, at)
            self.at = at
        return self.line, at - self.text.rfind("\n", 0, at)


class _FieldBudget:
    """How many fields a sample may still have."""

    def __init__(self, sources: Sources | None) -> None:
        self.sources = sources
        self.left = _MAX_SAMPLE_FIELDS

    def take(self) -> bool:
        self.left -= 1
        if self.sources is not None:
            self.sources.sampled -= 1
            return self.left >= 0 and self.sources.sampled >= 0
        return self.left >= 0


class _Declared:
    """What all files declare, looked up as protobuf does: from the inner scope outwards."""

    def __init__(self, files: Mapping[str, ProtoFile]) -> None:
        self.paths = frozenset(files)
        self.messages = {
            name: each for file in files.values() for name, each in file.messages.items()
        }
        self.enums = {name: each for file in files.values() for name, each in file.enums.items()}
        self.missing = False  # an import that is not here, so that unknown names may be in it

    def warn_of_imports(self, file: ProtoFile, sources: Sources) -> None:
        """Warn of imports that are not in api/; those of Google are part of protobuf."""
        lines = _Lines(file.text)
        for name, at in file.imports:
            if name.startswith("google/") or self._finds(file.path, name):
                continue
            self.missing = True
            line, column = lines.position(at)
            detail = f'the import "{name[:200]}" is not in api/'
            sources.warnings.add_at(INVALID, detail, file.path, line, column)

    def _finds(self, path: str, name: str) -> bool:
        """Return whether an import names a file, from `api/` or a folder on the way to the file."""
        folder = posixpath.dirname(path)
        while folder:
            if posixpath.normpath(f"{folder}/{name}") in self.paths:
                return True
            folder = posixpath.dirname(folder)
        return name in self.paths

    def has(self, name: str, scope: str) -> bool:
        full = self._full(name, scope)
        return bool(full) or self.missing or name.lstrip(".").startswith("google.")

    def _full(self, name: str, scope: str) -> str:
        if name.startswith("."):
            return name[1:] if name[1:] in self.messages or name[1:] in self.enums else ""
        for _ in range(MAX_DEPTH):
            candidate = f"{scope}.{name}" if scope else name
            if candidate in self.messages or candidate in self.enums:
                return candidate
            if not scope:
                return ""
            scope = scope.rpartition(".")[0]
        return ""

    def sample(self, name: str, scope: str, sources: Sources | None = None) -> Any:
        """Return a message in its JSON form; the budget of `sources` gets less by it."""
        budget = _FieldBudget(sources)
        return self._sample(name, scope, 0, budget)

    def _sample(self, name: str, scope: str, depth: int, budget: _FieldBudget) -> Any:
        if name in _SCALARS:
            return _SCALARS[name]
        if name.lstrip(".") in _WELL_KNOWN:
            return _WELL_KNOWN[name.lstrip(".")]
        full = self._full(name, scope)
        if full in self.enums:
            return self.enums[full]
        made: dict[str, object] = {}
        if depth >= _MAX_SAMPLE_DEPTH:
            return made
        for each in self.messages.get(full, ()):
            if not budget.take():
                break
            value = self._sample(each.type, full, depth + 1, budget)
            value = {"key": value} if each.key_type else value
            made[_json_name(each.name)] = [value] if each.repeated else value
        return made


def _json_name(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(part[:1].upper() + part[1:] for part in rest)
