"""The services of a suite's protos, with the place and comment of each method."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

MAX_METHODS: Final = 5_000
MAX_SUMMARY: Final = 300
_SERVICE, _METHOD = 6, 2  # their numbers in the descriptors of a file and of a service


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ProtoMethod:
    """A method of a file below `api/`; `line` and `column` begin at 1."""

    file: str
    service: str
    descriptor: Any
    summary: str = ""
    line: int = 0
    column: int = 0

    @property
    def name(self) -> str:
        return str(self.descriptor.name)

    @property
    def full_name(self) -> str:
        """Return the name of its operation: shop.v1.Orders/Get."""
        return f"{self.service}/{self.name}"

    @property
    def streams_requests(self) -> bool:
        return bool(self.descriptor.client_streaming)

    @property
    def streams_responses(self) -> bool:
        return bool(self.descriptor.server_streaming)

    @property
    def is_unary(self) -> bool:
        return not (self.streams_requests or self.streams_responses)

    @property
    def request(self) -> Any:
        """Return the class of the requests."""
        return message_factory.GetMessageClass(self.descriptor.input_type)

    @property
    def response(self) -> Any:
        """Return the class of the answers."""
        return message_factory.GetMessageClass(self.descriptor.output_type)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtoProblem:
    """What is wrong, in protoc's words; `file` is "" where it is the suite as a whole."""

    detail: str
    file: str = ""  # below api/
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        place = ":".join(str(each) for each in (self.file, self.line, self.column) if each)
        return f"{place}: {self.detail}" if place else self.detail


@dataclass(frozen=True, slots=True, kw_only=True)
class Protos:
    """Methods are by their path; `size` is that of the descriptors in bytes."""

    pool: Any = field(default_factory=descriptor_pool.DescriptorPool)
    services: tuple[str, ...] = ()
    methods: Mapping[str, ProtoMethod] = field(default_factory=dict)
    problems: tuple[ProtoProblem, ...] = ()
    size: int = 0


def read_descriptors(
    content: bytes, names: Mapping[str, str], problems: tuple[ProtoProblem, ...]
) -> Protos:
    """Return the services of the files `names` in a descriptor set."""
    pool = descriptor_pool.DescriptorPool()
    services: list[str] = []
    methods: dict[str, ProtoMethod] = {}
    size = 0
    for file in descriptor_pb2.FileDescriptorSet.FromString(content).file:
        places = {
            tuple(each.path): each
            for each in file.source_code_info.location
            if len(each.path) == 4 and each.path[0] == _SERVICE and each.path[2] == _METHOD  # noqa: PLR2004
        }
        file.ClearField("source_code_info")
        serialized = file.SerializeToString()
        try:
            pool.AddSerializedFile(serialized)
        except TypeError as error:  # protoc takes what this protobuf does not
            problems += (ProtoProblem(detail=str(error)[:MAX_SUMMARY], file=file.name),)
            continue
        size += len(serialized)
        if file.name not in names:
            continue
        found = pool.FindFileByName(file.name).services_by_name.values()
        services += [each.full_name for each in found]
        for method in _methods(file.name, found, places):
            if len(methods) < MAX_METHODS:
                methods[f"/{method.full_name}"] = method
    return Protos(
        pool=pool, services=tuple(sorted(services)), methods=methods, problems=problems, size=size
    )


def _methods(
    file: str, services: Any, places: Mapping[tuple[int, ...], Any]
) -> Iterator[ProtoMethod]:
    for service in services:
        for method in service.methods:
            place = places.get((_SERVICE, service.index, _METHOD, method.index))
            line, column = tuple(place.span)[:2] if place else (-1, -1)
            said = (place.leading_comments or place.trailing_comments) if place else ""
            lines = (each.strip(" \t*/") for each in said.split("\n"))
            yield ProtoMethod(
                file=file,
                service=service.full_name,
                descriptor=method,
                summary=next(filter(None, lines), "")[:MAX_SUMMARY],
                line=line + 1,
                column=column + 1,
            )
