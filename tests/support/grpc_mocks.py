"""A gRPC server of mocks over memory, and a client that learns everything by reflection."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory
from grpc_reflection.v1alpha import reflection_pb2

from mocks.engine.engine import Engine
from mocks.engine.tables import compile_space
from mocks.grpc.server import GrpcServer
from mocks.journal.memory import MemoryJournal
from mocks.model.ports import SpaceContent
from mocks.model.spaces import SpaceName
from mocks.plane.setup import PlaneSetup
from mocks.proxies.guarded import GuardedProxy
from mocks.scripts.pool import ScriptPool
from mocks.spaces import Spaces, SpacesSetup
from mocks.state.memory import MemoryState
from surfaces import surfaces_of

REFLECTION = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"
REFLECTION_V1 = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"


def content_of(suite_id: str, texts: Mapping[str, str], *, generation: str = "1") -> SpaceContent:
    files = {path: text.encode() for path, text in texts.items()}
    surfaces, _ = surfaces_of(files, suite_id=suite_id, base_url="http://mocks.test")
    return SpaceContent(
        suite_id=suite_id, title=suite_id, repository="", generation=generation,
        surfaces=surfaces, files=files,
    )  # fmt: skip


class Suites:
    """A source of spaces that a test fills; a run's space is that of its suite."""

    def __init__(self, contents: Mapping[str, SpaceContent]) -> None:
        self.contents = dict(contents)

    def load(self, name: SpaceName) -> SpaceContent | None:
        return self.contents.get(str(name))

    def generations(self, names: Sequence[SpaceName]) -> Mapping[SpaceName, str]:
        return {
            name: self.contents[str(name)].generation
            for name in names
            if str(name) in self.contents
        }


@dataclass
class GrpcMocks:
    suites: Suites
    spaces: Spaces
    journal: MemoryJournal
    state: MemoryState
    counted: list[tuple[str, str, str]]
    server: GrpcServer
    channel: Any

    async def files_of(self, symbol: str, metadata: Any = (), path: str = REFLECTION) -> Any:
        """Return a pool with the file of a symbol and what it imports."""
        answer = await self.asked(metadata, path, file_containing_symbol=symbol)
        pool = descriptor_pool.DescriptorPool()
        files = {}
        for content in answer.file_descriptor_response.file_descriptor_proto:
            file = descriptor_pb2.FileDescriptorProto.FromString(content)
            files[file.name] = file
        waiting = list(files.values())
        added: set[str] = set()
        while waiting:
            file = waiting.pop(0)
            if set(file.dependency) - added:
                waiting.append(file)
                continue
            pool.AddSerializedFile(file.SerializeToString())
            added.add(file.name)
        return pool

    async def asked(self, metadata: Any = (), path: str = REFLECTION, **question: Any) -> Any:
        call = self.channel.stream_stream(
            path,
            request_serializer=reflection_pb2.ServerReflectionRequest.SerializeToString,
            response_deserializer=reflection_pb2.ServerReflectionResponse.FromString,
        )([reflection_pb2.ServerReflectionRequest(**question)], metadata=metadata)
        return await call.read()

    async def services(self, metadata: Any = (), path: str = REFLECTION) -> list[str]:
        answer = await self.asked(metadata, path, list_services="")
        return [each.name for each in answer.list_services_response.service]

    async def call(
        self, path: str, *documents: Mapping[str, Any], metadata: Any = (), within_s: float = 10.0
    ) -> Called:
        """Call a method that reflection describes; the messages are proto JSON."""
        service, _, name = path.strip("/").partition("/")
        pool = await self.files_of(service, metadata)
        method = pool.FindServiceByName(service).FindMethodByName(name)
        request: Any = message_factory.GetMessageClass(method.input_type)
        response = message_factory.GetMessageClass(method.output_type)
        sent = [json_format.ParseDict(dict(each), request()) for each in documents]
        kind = "{}_{}".format(
            "stream" if method.client_streaming else "unary",
            "stream" if method.server_streaming else "unary",
        )
        made = getattr(self.channel, kind)(
            f"/{service}/{name}",
            request_serializer=request.SerializeToString,
            response_deserializer=response.FromString,
        )
        call = made(
            sent if method.client_streaming else sent[0], metadata=metadata, timeout=within_s
        )
        try:
            found = [each async for each in call] if method.server_streaming else [await call]
        except grpc.aio.AioRpcError as error:
            return Called(error.code(), error.details() or "", [], {}, trailing_of(error))
        return Called(
            await call.code(),
            await call.details(),
            [json_format.MessageToDict(each) for each in found],
            dict(await call.initial_metadata()),
            dict(await call.trailing_metadata()),
        )


def trailing_of(error: Any) -> dict[str, Any]:
    return dict(error.trailing_metadata() or ())


@dataclass
class Called:
    code: Any
    details: str
    messages: list[Any]
    initial: dict[str, Any]
    trailing: dict[str, Any]

    @property
    def message(self) -> Any:
        (found,) = self.messages
        return found


@asynccontextmanager
async def grpc_mocks(
    contents: Mapping[str, SpaceContent], **setup: Any
) -> AsyncIterator[GrpcMocks]:
    suites = Suites(contents)
    spaces = Spaces(SpacesSetup(source_of=lambda _kind: suites, compile=compile_space))
    state, journal, scripts = MemoryState(), MemoryJournal(), ScriptPool()
    counted: list[tuple[str, str, str]] = []

    def meter(*labels: str) -> Any:
        return lambda _ms: counted.append(labels)  # type: ignore[arg-type]

    made = PlaneSetup(
        spaces=spaces,
        engine=Engine(state=state, scripts=scripts, proxy=GuardedProxy()),
        journal=journal,
        meter=meter,
        **setup,
    )
    server = GrpcServer(
        made, lambda: [name for name in suites.contents if "@" not in name],
        host="127.0.0.1", port=0,
    )  # fmt: skip
    await server.start()
    channel = grpc.aio.insecure_channel(f"127.0.0.1:{server.port}")
    try:
        yield GrpcMocks(suites, spaces, journal, state, counted, server, channel)
    finally:
        await channel.close()
        await server.stop()
        await asyncio.to_thread(spaces.stop)
        scripts.close()
