"""The methods of mock spaces, found by the path of a call; loaded ones answer without waiting.

methods = Methods(setup, names)
method = methods.find_loaded(path, metadata)         # never waits
method = await methods.find(path, metadata)          # loads the space, compiles its protos
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import grpc

from kernel.errors import PlatformError
from mocks.errors import OperationNotFound, SpaceNotActive, SuiteNotFound
from mocks.grpc.messages import LARGE, Codec
from mocks.grpc.statuses import SentMetadata, origin_of, sent_headers, status_of
from mocks.model.calls import MockAnswer
from mocks.model.spaces import SpaceName
from mocks.plane.setup import AccessRules, PlaneSetup
from mocks.scripts.slots import Slots
from mocks.spaces import LiveSpace
from surfaces.protos import ProtoMethod, Protos, compile_protos

if TYPE_CHECKING:
    from mocks.engine.tables import CompiledOperation

SPACE_KEY: Final = "x-partita-space"
SECRET_KEY: Final = "x-partita-mock-secret"  # noqa: S105 - the name of a header
FRESH_S: Final = 2.0
MAX_NAMED: Final = 10  # spaces that an error lists
MAX_KNOWN: Final = 64
MAX_COMPILING: Final = 256
_compiling: Final = Slots(1, MAX_COMPILING)
Metadata = Sequence[tuple[str, str | bytes]]


class SpaceAmbiguous(PlatformError):
    """A call does not say which space it is for, and none or several serve its service."""

    code = "precondition_failed"


class CompilerBusy(PlatformError):
    code = "queue_full"


@dataclass(slots=True, eq=False)
class Method:
    """A method of a space with its operation.

    With `ready`, the messages of `answer`, the method answers every call alike.
    """

    path: str
    space: LiveSpace
    operation: CompiledOperation
    proto: ProtoMethod
    codec: Codec
    ready: tuple[bytes, ...] | None = None
    answer: MockAnswer | None = None
    headers: SentMetadata = ()
    origin: SentMetadata = ()
    handler: Any = None  # of grpc, once it was called


@dataclass(slots=True, eq=False)
class GrpcSpace:
    """A space with its protos; its methods are found at their first call."""

    space: LiveSpace
    protos: Protos
    methods: dict[str, Method] = field(default_factory=dict)

    def method(self, path: str) -> Method:
        """Return a method; raise OperationNotFound."""
        found = self.methods.get(path)
        if found is None:
            found = self.methods[path] = self._build_method(path)
        return found

    def _build_method(self, path: str) -> Method:
        proto = self.protos.methods.get(path)
        operation = self._operation(proto.full_name) if proto else None
        if proto is None or operation is None:
            why = f" ({self.protos.problems[0]})" if self.protos.problems else ""
            raise OperationNotFound(f"{self.space.text} has no method {path[:300]}{why}")
        method = Method(path, self.space, operation, proto, Codec(proto, self.protos))
        answer = operation.static
        if answer is None or len(answer.body) > LARGE:
            return method  # a large answer is converted on a thread
        if status_of(answer) is grpc.StatusCode.OK:
            method.answer, method.ready = answer, method.codec.messages_at_once(answer.body)
            method.headers, method.origin = sent_headers(answer.headers), origin_of(answer)
        return method

    def _operation(self, full_name: str) -> CompiledOperation | None:
        for surface in self.space.compiled.surfaces.values():
            if found := surface.find(full_name, "grpc"):
                return found
        return None


class Methods:
    """`names` returns the shared spaces that have protos; it is called on a thread."""

    def __init__(self, setup: PlaneSetup, names: Callable[[], Sequence[str]]) -> None:
        self._spaces = setup.spaces
        self._access = AccessRules(setup)
        self._names = names
        self._known: dict[str, GrpcSpace] = {}
        self._serving: dict[str, tuple[float, str]] = {}  # by service: since when, and the space
        self._shared: tuple[float, Sequence[GrpcSpace]] = (-FRESH_S, ())
        self._loading = asyncio.Lock()

    def find_loaded(self, path: str, metadata: Metadata) -> Method | None:
        """Return a method of a space that is loaded and fresh, unless something must be checked."""
        named, secret = _read_metadata(metadata)
        now = time.monotonic()
        if not named:
            since, named = self._serving.get(_service_of(path), (0.0, ""))
            if now - since > FRESH_S:
                return None
        found = self._known.get(named)
        if found is None or self._spaces.get(named, now) is not found.space:
            return None
        if not self._access.may_call(found.space.name, secret):
            return None
        return found.methods.get(path)

    async def find(self, path: str, metadata: Metadata) -> Method:
        """Return the method of a call; raise a PlatformError that says what is missing."""
        named = self._authorize(metadata) or await self._only_space(_service_of(path))
        space = await self.space(named)
        return space.method(path)

    def _authorize(self, metadata: Metadata) -> str:
        """Return the space that metadata name, "" for the shared ones; raise SecretRequired.

        Without the secret nobody learns which shared spaces there are.
        """
        named, secret = _read_metadata(metadata)
        name = SpaceName.parse(named)
        if name is None or name.is_shared:
            self._access.require_secret(secret)
        return named

    async def space(self, text: str) -> GrpcSpace:
        """Return a space with its protos; raise SuiteNotFound or SpaceNotActive."""
        name = SpaceName.parse(text)
        if name is None:
            raise SuiteNotFound(text)
        live = await self._spaces.find(name)
        known = self._known.get(text)
        if known is not None and known.space is live:
            return known
        protos = await _compile(live.compiled.content.files)
        if len(self._known) >= MAX_KNOWN:
            self._forget_unused()
        made = self._known[text] = GrpcSpace(live, protos)
        return made

    def _forget_unused(self) -> None:
        """Forget the spaces that nobody called a moment ago; all, if there are too many others."""
        now = time.monotonic()
        used = {
            text: each
            for text, each in self._known.items()
            if self._spaces.get(text, now) is each.space
        }
        self._known = used if len(used) < MAX_KNOWN else {}

    async def shared_spaces(self) -> Sequence[GrpcSpace]:
        """Return every shared space that has a service, as it was 2 s ago at most."""
        async with self._loading:
            since, spaces = self._shared
            if time.monotonic() - since > FRESH_S:
                spaces = await self._with_services()
                self._shared = (time.monotonic(), spaces)
        return spaces

    async def _with_services(self) -> Sequence[GrpcSpace]:
        names = await asyncio.to_thread(self._names)
        found = []
        for name in names:
            try:
                space = await self.space(name)
            except (SuiteNotFound, SpaceNotActive):  # it was removed a moment ago
                continue
            if space.protos.services:
                found.append(space)
        return found

    async def spaces_for(self, metadata: Metadata) -> Sequence[GrpcSpace]:
        """Return the space that the metadata name, else every shared one."""
        named = self._authorize(metadata)
        return [await self.space(named)] if named else await self.shared_spaces()

    async def _only_space(self, service: str) -> str:
        since, known = self._serving.get(service, (0.0, ""))
        if time.monotonic() - since <= FRESH_S:
            return known
        spaces = await self.shared_spaces()
        serving = [each.space.text for each in spaces if service in each.protos.services]
        if len(serving) != 1:
            raise _ambiguous(service, serving)
        if len(self._serving) >= MAX_KNOWN:
            self._serving.clear()
        self._serving[service] = (time.monotonic(), serving[0])
        return serving[0]


async def _compile(files: Mapping[str, bytes]) -> Protos:
    """Compile on a thread, one suite at a time: it may take long, and others need threads too."""
    if not await _compiling.acquire():
        raise CompilerBusy("too many suites wait for their protos to be compiled; try again")
    try:
        return await asyncio.to_thread(compile_protos, files)
    finally:
        _compiling.release()


def _service_of(path: str) -> str:
    return path.partition("/")[2].partition("/")[0]


def _ambiguous(service: str, serving: Sequence[str]) -> SpaceAmbiguous:
    if not serving:
        return SpaceAmbiguous(
            f"no suite serves {service[:200]}; for the space of a run, send the metadata "
            f"{SPACE_KEY}: <suite>@<run>"
        )
    named = ", ".join(sorted(serving)[:MAX_NAMED])
    return SpaceAmbiguous(
        f"several suites serve {service[:200]} ({named}); send the metadata {SPACE_KEY}: <suite>"
    )


def _read_metadata(metadata: Metadata) -> tuple[str, dict[bytes, bytes]]:
    """Return the space that metadata name, and the shared secret as the gate reads it."""
    named, secret = "", {}
    for key, value in metadata:
        if key == SPACE_KEY:
            named = str(value)
        elif key == SECRET_KEY and isinstance(value, str):
            secret = {SECRET_KEY.encode(): value.encode()}
    return named, secret
