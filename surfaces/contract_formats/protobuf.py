"""gRPC contracts: the services of `.proto` files, as protoc describes them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial
from itertools import groupby
from typing import Any, Final

from google.protobuf.descriptor import FieldDescriptor

from surfaces.contract_examples.message_examples import SampleExample
from surfaces.contracts import INVALID, Contract, ContractOperation, Sources
from surfaces.protos import ProtoMethod, compile_protos
from surfaces.protos.compiler import FOLDER

PROTOCOL: Final = "gRPC"
_MAX_SAMPLE_DEPTH: Final = 5
_MAX_SAMPLE_FIELDS: Final = 100
_SCALARS: Final[Mapping[int, object]] = {
    FieldDescriptor.CPPTYPE_STRING: "string",
    FieldDescriptor.CPPTYPE_BOOL: False,
    **dict.fromkeys((FieldDescriptor.CPPTYPE_DOUBLE, FieldDescriptor.CPPTYPE_FLOAT), 0.0),
    **dict.fromkeys((FieldDescriptor.CPPTYPE_INT32, FieldDescriptor.CPPTYPE_UINT32), 0),
    **dict.fromkeys((FieldDescriptor.CPPTYPE_INT64, FieldDescriptor.CPPTYPE_UINT64), "0"),
}
_WELL_KNOWN: Final[Mapping[str, object]] = {
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


def read_protos(sources: Sources) -> Iterator[Contract]:
    """Yield a contract for each file that declares a service."""
    protos = compile_protos(sources.files)
    for each in protos.problems:
        if each.file:
            path = f"{FOLDER}{each.file}"
            sources.warnings.add_at(INVALID, each.detail, path, each.line, each.column)
        else:
            sources.warnings.add_at("limit_exceeded", each.detail, "")
    for file, methods in groupby(protos.methods.values(), key=lambda method: method.file):
        path = f"{FOLDER}{file}"
        operations = tuple(_operations(path, list(methods), sources))
        yield Contract(path=path, protocol=PROTOCOL, operations=operations)


def _operations(
    path: str, methods: list[ProtoMethod], sources: Sources
) -> Iterator[ContractOperation]:
    names = Counter(method.name for method in methods)
    for method in methods:
        if not sources.take_operation(path):
            return
        short = method.service.rpartition(".")[2]
        client, server = method.streams_requests, method.streams_responses
        yield ContractOperation(
            operation_id=method.name if names[method.name] == 1 else f"{short}.{method.name}",
            method="POST",
            name=method.full_name,
            path=method.full_name,
            summary=method.summary,
            body=json.dumps(_FieldBudget(sources).sample(method.descriptor.input_type)),
            media_type="application/json",
            streaming="both" if client and server else "client" if client else "server" * server,
            line=method.line,
            column=method.column,
            examples=SampleExample(path, partial(_answer, method.descriptor.output_type)),
        )


def _answer(message: Any) -> object:
    return _FieldBudget(None).sample(message)


class _FieldBudget:
    """How many fields a sample may still have; the budget of `sources` gets less by it."""

    def __init__(self, sources: Sources | None) -> None:
        self.sources = sources
        self.left = _MAX_SAMPLE_FIELDS

    def take(self) -> bool:
        self.left -= 1
        if self.sources is not None:
            self.sources.sampled -= 1
            return self.left >= 0 and self.sources.sampled >= 0
        return self.left >= 0

    def sample(self, message: Any, depth: int = 0) -> object:
        """Return a message in its JSON form, without what stands in a oneof."""
        if message.full_name in _WELL_KNOWN:
            return _WELL_KNOWN[message.full_name]
        made: dict[str, object] = {}
        for field in message.fields if depth < _MAX_SAMPLE_DEPTH else ():
            if field.containing_oneof and field.containing_oneof.name != f"_{field.name}":
                continue
            if not self.take():
                break
            made[field.json_name] = self._field(field, depth)
        return made

    def _field(self, field: Any, depth: int) -> object:
        inner = field.message_type
        if inner is not None and inner.GetOptions().map_entry:
            key = inner.fields_by_name["key"]
            is_text = key.cpp_type == FieldDescriptor.CPPTYPE_STRING
            name = "key" if is_text else json.dumps(_SCALARS[key.cpp_type]).strip('"')
            return {name: self._value(inner.fields_by_name["value"], depth)}
        value = self._value(field, depth)
        return [value] if field.is_repeated else value

    def _value(self, field: Any, depth: int) -> object:
        if field.message_type is not None:
            return self.sample(field.message_type, depth + 1)
        if field.enum_type is not None:
            return field.enum_type.values[0].name
        is_bytes = field.type == FieldDescriptor.TYPE_BYTES
        return "" if is_bytes else _SCALARS[field.cpp_type]
