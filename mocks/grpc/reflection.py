"""Reflection and health of the mock services (grpc.reflection.v1, v1alpha and grpc.health.v1).

Both are grpcio's own, over the services of the space that the metadata `x-partita-space` name;
without it, of all shared spaces, where the first one answers for what several declare.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, text_format
from grpc_health.v1 import health, health_pb2
from grpc_reflection.v1alpha import reflection, reflection_pb2

from kernel.errors import PlatformError
from mocks.grpc.calls import abort, error_end
from mocks.grpc.methods import Methods

MAX_QUESTIONS: Final = 1_000  # of one stream
_HEALTH: Final = health.SERVICE_NAME
_ALPHA: Final = reflection.SERVICE_NAME
_REFLECTIONS: Final = (_ALPHA, _ALPHA.replace("v1alpha", "v1"))


class ReflectionHandler(grpc.GenericRpcHandler):  # type: ignore[misc]
    """Serves reflection and health; other paths are another handler's."""

    def __init__(self, methods: Methods) -> None:
        self._methods = methods
        self._own = _own_pool()
        reflect = grpc.stream_stream_rpc_method_handler(
            self._reflect,
            request_deserializer=reflection_pb2.ServerReflectionRequest.FromString,
            response_serializer=reflection_pb2.ServerReflectionResponse.SerializeToString,
        )
        coding = {
            "request_deserializer": health_pb2.HealthCheckRequest.FromString,
            "response_serializer": health_pb2.HealthCheckResponse.SerializeToString,
        }
        self._handlers: Mapping[str, Any] = {
            f"/{_HEALTH}/Check": grpc.unary_unary_rpc_method_handler(self._check, **coding),
            f"/{_HEALTH}/Watch": grpc.unary_stream_rpc_method_handler(self._watch, **coding),
            # The messages of both versions are the same on the wire.
            **{f"/{each}/ServerReflectionInfo": reflect for each in _REFLECTIONS},
        }

    def service(self, handler_call_details: Any) -> Any:
        return self._handlers.get(handler_call_details.method)

    async def _check(self, request: Any, context: Any) -> Any:
        return await (await self._health(request, context)).Check(request, context)

    async def _watch(self, request: Any, context: Any) -> None:
        """Tell the state now; that of a mock does not change before its space does."""
        await (await self._health(request, context)).Watch(request, context)

    async def _health(self, request: Any, context: Any) -> Any:
        """Return the health of all services; who asks for the server's own needs no secret."""
        servicer = health.aio.HealthServicer()
        own = (_HEALTH, *_REFLECTIONS)
        names = own if request.service in ("", *own) else (await self._services(context))[0]
        for name in names:
            await servicer.set(name, health_pb2.HealthCheckResponse.SERVING)
        return servicer

    async def _services(self, context: Any) -> tuple[set[str], Sequence[Any]]:
        """Return the names of the services, and the pools that describe them."""
        try:
            spaces = await self._methods.spaces_for(context.invocation_metadata() or ())
        except PlatformError as error:
            await abort(context, error_end(error))
            raise
        names = {name for space in spaces for name in space.protos.services}
        return names | {_HEALTH, *_REFLECTIONS}, [*(each.protos.pool for each in spaces), self._own]

    async def _reflect(self, requests: AsyncIterator[Any], context: Any) -> AsyncIterator[Any]:
        names, pools = await self._services(context)
        servicer = reflection.aio.ReflectionServicer(names, pool=_Pools(pools))
        async for answer in servicer.ServerReflectionInfo(
            _limit_questions(requests, context), context
        ):
            yield answer


async def _limit_questions(requests: AsyncIterator[Any], context: Any) -> AsyncIterator[Any]:
    asked = 0
    async for request in requests:
        asked += 1
        if asked > MAX_QUESTIONS:
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "too many questions")
        yield request


class _Pools:
    """Several pools as one: the first that knows a name answers."""

    def __init__(self, pools: Sequence[Any]) -> None:
        self._pools = pools

    def __getattr__(self, find: str) -> Callable[[str], Any]:
        def find_first(name: str) -> Any:
            for pool in self._pools:
                with suppress(KeyError):
                    return getattr(pool, find)(name)
            raise KeyError(name)

        return find_first

    def FindFileContainingSymbol(self, symbol: str) -> Any:  # noqa: N802 - protobuf's name
        try:
            return self.__getattr__("FindFileContainingSymbol")(symbol)
        except KeyError:  # the pool does not look for methods
            service, _, name = symbol.rpartition(".")
            return self.FindServiceByName(service).methods_by_name[name].containing_service.file

    def FindExtensionByNumber(self, message: Any, number: int) -> Any:  # noqa: N802
        return message.file.pool.FindExtensionByNumber(message, number)

    def FindAllExtensions(self, message: Any) -> Any:  # noqa: N802
        return message.file.pool.FindAllExtensions(message)


def _own_pool() -> Any:
    """Return a pool that describes health and both versions of reflection."""
    pool = descriptor_pool.DescriptorPool()
    alpha = descriptor_pb2.FileDescriptorProto()
    reflection_pb2.DESCRIPTOR.CopyToProto(alpha)
    text = text_format.MessageToString(alpha).replace("v1alpha", "v1")
    stable = text_format.Parse(text, descriptor_pb2.FileDescriptorProto())
    pool.AddSerializedFile(health_pb2.DESCRIPTOR.serialized_pb)
    pool.AddSerializedFile(alpha.SerializeToString())
    pool.AddSerializedFile(stable.SerializeToString())
    return pool
