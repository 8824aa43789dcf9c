"""The protos of a suite, compiled in a child process within limits.

    protos = compile_protos(files)       # blocks for a process: call it on a thread
    method = protos.methods["/shop.v1.Orders/Get"]

What is in a suite is anybody's: files that are too many, too large or too much for the limits give
no services, and `problem` says why. Sets are kept by the digest of their files.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
import subprocess
import sys
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

logger = logging.getLogger("partita.mocks")

FOLDER: Final = "api/"
MAX_FILES: Final = 2_000
MAX_TEXT: Final = 8 * 2**20
MAX_SET: Final = 4 * 2**20
MAX_METHODS: Final = 5_000
MAX_PROBLEM: Final = 500
MEMORY: Final = 512 * 2**20
CPU_S: Final = 5
WALL_S: Final = 15.0
KEPT: Final = 64
MAX_KEPT: Final = 16 * 2**20  # bytes of the sets that are kept
_NAME: Final = re.compile(r"(?:[A-Za-z0-9_][A-Za-z0-9_.-]*/)*[A-Za-z0-9_][A-Za-z0-9_.-]*\.proto")
_CHILD: Final = Path(__file__).with_name("protoc_child.py")
_kept: Final[OrderedDict[str, Protos]] = OrderedDict()
_compiling: Final = threading.Lock()  # one at a time, and none twice


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtoMethod:
    """A method; `request` and `response` are classes of messages."""

    full_name: str  # shop.v1.Orders/Get, as operations are named
    request: Any
    response: Any
    streams_requests: bool
    streams_responses: bool

    @property
    def is_unary(self) -> bool:
        return not (self.streams_requests or self.streams_responses)


@dataclass(frozen=True, slots=True, kw_only=True)
class Protos:
    pool: Any = field(default_factory=descriptor_pool.DescriptorPool)
    services: tuple[str, ...] = ()
    methods: Mapping[str, ProtoMethod] = field(default_factory=dict)  # by path
    problem: str = ""
    size: int = 0


def protos_in(files: Mapping[str, bytes]) -> dict[str, str]:
    """Return the protos of a suite by their path below `api/`."""
    return {
        path.removeprefix(FOLDER): content.decode(errors="replace")
        for path, content in files.items()
        if path.startswith(FOLDER) and _NAME.fullmatch(path.removeprefix(FOLDER))
    }


def compile_protos(files: Mapping[str, bytes]) -> Protos:
    """Return the services of a suite's files; it never raises for what is in them."""
    texts = protos_in(files)
    if not texts:
        return Protos()
    if len(texts) > MAX_FILES or sum(map(len, texts.values())) > MAX_TEXT:
        return Protos(problem="the suite has too many or too large .proto files")
    digest = hashlib.sha256(json.dumps(sorted(texts.items())).encode()).hexdigest()
    with _compiling:
        if digest not in _kept:
            _kept[digest] = _compile(texts)
        _kept.move_to_end(digest)
        while len(_kept) > KEPT or sum(each.size for each in _kept.values()) > MAX_KEPT:
            _kept.popitem(last=False)
        return next(reversed(_kept.values()))


def _compile(texts: Mapping[str, str]) -> Protos:
    with tempfile.TemporaryDirectory(prefix="partita-protos-") as folder:
        ended = _run(texts, folder)
        problem = _read(Path(folder, "problems"), MAX_PROBLEM).decode(errors="replace").strip()
        sets = [_read(path, MAX_SET + 1) for path in sorted(Path(folder).glob("out-*"))]
    if not ended:
        return Protos(problem="the .proto files take too much memory or time to compile")
    if sum(map(len, sets)) > MAX_SET:
        return Protos(problem="the .proto files declare too much")
    if problem:
        logger.info("Protos of a suite do not all compile: %s", problem)
    return _load(sets, problem)


def _run(texts: Mapping[str, str], folder: str) -> bool:
    """Run the compiler; return whether it ended by itself."""
    # S603: the program is this Python and a file of ours; what it compiles goes to its stdin.
    # -I: the child sees neither the environment nor the current folder.
    limits = [str(MEMORY), str(CPU_S), str(MAX_SET + 1)]
    try:
        ended = subprocess.run(  # noqa: S603
            [sys.executable, "-I", str(_CHILD), *limits],
            input=json.dumps(texts).encode(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={},
            cwd=folder,
            timeout=WALL_S,
            check=False,
            start_new_session=True,  # without Ctrl-C from the terminal
        )
    except subprocess.TimeoutExpired:
        return False
    return ended.returncode == 0


def _read(path: Path, limit: int) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(limit)
    except FileNotFoundError:
        return b""


def _load(sets: list[bytes], problem: str) -> Protos:
    pool = descriptor_pool.DescriptorPool()
    names: dict[str, None] = {}
    for file in _files(sets):
        try:
            pool.AddSerializedFile(file.SerializeToString())
        except TypeError as error:  # it declares what another file has declared
            problem = problem or f"{file.name}: {error}"
            continue
        prefix = f"{file.package}." if file.package else ""
        names.update(dict.fromkeys(f"{prefix}{service.name}" for service in file.service))
    methods: dict[str, ProtoMethod] = {}
    for name in names:
        for method in pool.FindServiceByName(name).methods:
            if len(methods) < MAX_METHODS:
                methods[f"/{name}/{method.name}"] = _method(name, method)
    return Protos(
        pool=pool,
        services=tuple(sorted(names)),
        methods=methods,
        problem=problem[:MAX_PROBLEM],
        size=sum(map(len, sets)),
    )


def _files(sets: list[bytes]) -> Iterator[Any]:
    """Yield each file once, after those that it imports, as protoc orders them."""
    seen: set[str] = set()
    for content in sets:
        for file in descriptor_pb2.FileDescriptorSet.FromString(content).file:
            if file.name not in seen:
                seen.add(file.name)
                yield file


def _method(service: str, method: Any) -> ProtoMethod:
    return ProtoMethod(
        full_name=f"{service}/{method.name}",
        request=message_factory.GetMessageClass(method.input_type),
        response=message_factory.GetMessageClass(method.output_type),
        streams_requests=method.client_streaming,
        streams_responses=method.server_streaming,
    )
