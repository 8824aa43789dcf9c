"""Reflection and health of the mock services (grpc.reflection.v1, v1alpha and grpc.health.v1).

Both follow the metadata `x-partita-space`; without it they speak of all shared spaces, and of two
files with one name the first one is told.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, Final

import grpc
from google.protobuf import descriptor_pb2
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2

from kernel.errors import PlatformError
from mocks.grpc.calls import abort, error_end
from mocks.grpc.methods import GrpcSpace, Methods

_REFLECTIONS: Final = ("grpc.reflection.v1", "grpc.reflection.v1alpha")
_HEALTH: Final = "grpc.health.v1.Health"
_OWN: Final = (_HEALTH, *(f"{each}.ServerReflection" for each in _REFLECTIONS))
MAX_QUESTIONS: Final = 1_000  # of one stream
Spaces = Sequence[GrpcSpace]


class ReflectionHandler(grpc.GenericRpcHandler):  # type: ignore[misc]
    """Serves reflection and health; other paths are another handler's."""

    def __init__(self, methods: Methods) -> None:
        self._methods = methods
        reflection = grpc.stream_stream_rpc_method_handler(
            self._reflect,
            request_deserializer=reflection_pb2.ServerReflectionRequest.FromString,
            response_serializer=reflection_pb2.ServerReflectionResponse.SerializeToString,
        )
        read, write = (
            health_pb2.HealthCheckRequest.FromString,
            health_pb2.HealthCheckResponse.SerializeToString,
        )
        self._handlers: Mapping[str, Any] = {
            f"/{_HEALTH}/Check": grpc.unary_unary_rpc_method_handler(
                self._check, request_deserializer=read, response_serializer=write
            ),
            f"/{_HEALTH}/Watch": grpc.unary_stream_rpc_method_handler(
                self._watch, request_deserializer=read, response_serializer=write
            ),
            # The messages of both versions are the same on the wire.
            **{
                f"/{each}.ServerReflection/ServerReflectionInfo": reflection
                for each in _REFLECTIONS
            },
        }

    def service(self, handler_call_details: Any) -> Any:
        return self._handlers.get(handler_call_details.method)

    async def _check(self, request: Any, context: Any) -> Any:
        if await self._serves(request.service, context):
            return health_pb2.HealthCheckResponse(status=health_pb2.HealthCheckResponse.SERVING)
        return await context.abort(grpc.StatusCode.NOT_FOUND, "no suite serves this service")

    async def _watch(self, request: Any, context: Any) -> AsyncIterator[Any]:
        """Tell the state now; that of a mock does not change before its space does."""
        serves = await self._serves(request.service, context)
        states = health_pb2.HealthCheckResponse
        yield states(status=states.SERVING if serves else states.SERVICE_UNKNOWN)
        await asyncio.Event().wait()  # until the client leaves

    async def _serves(self, service: str, context: Any) -> bool:
        if not service or service in _OWN:
            return True
        spaces = await self._spaces(context)
        return any(service in space.protos.services for space in spaces)

    async def _spaces(self, context: Any) -> Spaces:
        try:
            return await self._methods.spaces_for(context.invocation_metadata() or ())
        except PlatformError as error:
            await abort(context, error_end(error))
            raise

    async def _reflect(self, requests: AsyncIterator[Any], context: Any) -> AsyncIterator[Any]:
        spaces = await self._spaces(context)
        asked = 0
        async for request in requests:
            asked += 1
            if asked > MAX_QUESTIONS:
                await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "too many questions")
            kind = request.WhichOneof("message_request") or ""
            answer = reflection_pb2.ServerReflectionResponse(original_request=request)
            try:
                _ASKED.get(kind, _unknown)(request, spaces, answer)
            except KeyError:
                answer.error_response.error_code = grpc.StatusCode.NOT_FOUND.value[0]
                answer.error_response.error_message = "not found"
            yield answer


def _list_services(_request: Any, spaces: Spaces, answer: Any) -> None:
    names = {name for space in spaces for name in space.protos.services}
    for name in sorted(names | set(_OWN)):
        answer.list_services_response.service.add(name=name)


def _file_by_filename(request: Any, spaces: Spaces, answer: Any) -> None:
    name = request.file_by_filename
    _tell_file(spaces, lambda pool: pool.FindFileByName(name), answer)


def _file_containing_symbol(request: Any, spaces: Spaces, answer: Any) -> None:
    symbol = request.file_containing_symbol

    def find_file(pool: Any) -> Any:
        try:
            return pool.FindFileContainingSymbol(symbol)
        except KeyError:  # the pool does not look for methods
            service, _, name = symbol.rpartition(".")
            return pool.FindServiceByName(service).methods_by_name[name].containing_service.file

    _tell_file(spaces, find_file, answer)


def _file_containing_extension(request: Any, spaces: Spaces, answer: Any) -> None:
    asked = request.file_containing_extension

    def find_file(pool: Any) -> Any:
        message = pool.FindMessageTypeByName(asked.containing_type)
        return pool.FindExtensionByNumber(message, asked.extension_number).file

    _tell_file(spaces, find_file, answer)


def _extension_numbers(request: Any, spaces: Spaces, answer: Any) -> None:
    name = request.all_extension_numbers_of_type
    told = answer.all_extension_numbers_response

    def numbers(pool: Any) -> list[int]:
        message = pool.FindMessageTypeByName(name)
        return sorted(each.number for each in pool.FindAllExtensions(message))

    told.extension_number.extend(_first(spaces, numbers))
    told.base_type_name = name


def _unknown(_request: Any, _spaces: Spaces, answer: Any) -> None:
    answer.error_response.error_code = grpc.StatusCode.INVALID_ARGUMENT.value[0]
    answer.error_response.error_message = "the request asks for nothing"


_ASKED: Final[Mapping[str, Callable[[Any, Spaces, Any], None]]] = {
    "list_services": _list_services,
    "file_by_filename": _file_by_filename,
    "file_containing_symbol": _file_containing_symbol,
    "file_containing_extension": _file_containing_extension,
    "all_extension_numbers_of_type": _extension_numbers,
}


def _tell_file(spaces: Spaces, find: Callable[[Any], Any], answer: Any) -> None:
    """Tell a file and what it imports; raise KeyError."""
    files: dict[str, Any] = {}
    _with_imports(_first(spaces, find), files)
    for file in files.values():
        told = descriptor_pb2.FileDescriptorProto()
        file.CopyToProto(told)
        answer.file_descriptor_response.file_descriptor_proto.append(told.SerializeToString())


def _first(spaces: Spaces, find: Callable[[Any], Any]) -> Any:
    """Return what the first pool has; raise KeyError."""
    for space in spaces:
        try:
            return find(space.protos.pool)
        except KeyError:
            continue
    raise KeyError


def _with_imports(file: Any, find_file: dict[str, Any]) -> None:
    waiting = [file]
    while waiting:
        each = waiting.pop()
        if each.name not in find_file:
            find_file[each.name] = each
            waiting.extend(each.dependencies)
