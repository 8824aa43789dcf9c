"""The compiler process: it reads JSON with `.proto` files from stdin and writes descriptor sets.

It is run by path with `python -I` in an empty folder. It sets its limits before it reads a file:
protoc is a C++ program, and the files are anybody's. First all files are compiled at once; when
that fails, each file that declares services for itself, so that one that is broken costs its own
services alone. Sets are written to `out-<n>` and what protoc says to `problems`.
"""

from __future__ import annotations

import importlib.util
import json
import os
import posixpath
import resource
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:  # found only after the change of sys.path below
    from surfaces.contract_formats.proto_reader import ProtoFile

ROOT: Final = Path(__file__).resolve().parents[2]
NICENESS: Final = 10
MAX_ATTEMPTS: Final = 64
SHARED: Final = ("api", "longrunning", "rpc", "type")  # of google/, beside protobuf itself
SOURCES: Final = "sources"


def main() -> None:
    memory, seconds, size = map(int, sys.argv[1:])
    os.nice(NICENESS)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    with Path("problems").open("wb") as problems:
        os.dup2(problems.fileno(), 2)
    declaring = write_sources(json.load(sys.stdin.buffer))
    os.chdir(SOURCES)
    if declaring and not compile_files(declaring, 0):
        for number, name in enumerate(declaring[:MAX_ATTEMPTS], 1):
            compile_files([name], number)


def write_sources(texts: dict[str, str]) -> list[str]:
    """Write the files below SOURCES; return the names of those that declare services."""
    from surfaces.contract_formats.proto_reader import ProtoFile, ProtoReader

    declaring = []
    for name, text in texts.items():
        file = ProtoFile(name, text.removeprefix("\ufeff"))
        try:
            ProtoReader(file).read()
        except ValueError as error:
            print(f"{name}: {error}", file=sys.stderr)  # noqa: T201 - the file of problems
            continue
        if file.services:
            declaring.append(name)
        place = Path(SOURCES, name)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(with_full_imports(file, texts), encoding="utf-8")
    return declaring


def with_full_imports(file: ProtoFile, names: dict[str, str]) -> str:
    """Return the text with imports as protoc finds them: by their path from the top folder."""
    text = file.text
    for name, at in reversed(file.imports):
        found = full_import(file.path, name, names)
        text = f'{text[:at]}"{found}"{text[at + len(name) + 2 :]}'
    return text


def full_import(path: str, name: str, names: dict[str, str]) -> str:
    """Return the file that an import names, from the folder of its file outwards."""
    folder = posixpath.dirname(path)
    while True:
        candidate = posixpath.normpath(posixpath.join(folder, name))
        if candidate in names:
            return candidate
        if not folder:
            return name
        folder = posixpath.dirname(folder)


def compile_files(names: list[str], number: int) -> bool:
    """Compile the files, and what they import, to a set; return whether protoc could."""
    from grpc_tools import _protoc_compiler

    include = Path(_protoc_compiler.__file__).with_name("_proto")
    arguments = ["protoc", "-I.", *shared_folders(), f"-I{include}", "--include_imports"]
    arguments += [f"--descriptor_set_out=../out-{number}", *names]
    return bool(_protoc_compiler.run_main([each.encode() for each in arguments]) == 0)


def shared_folders() -> list[str]:
    """Return where the common files of Google's APIs are, if they are installed."""
    found = importlib.util.find_spec("google.api")
    if found is None or not found.submodule_search_locations:
        return []
    folder = Path(next(iter(found.submodule_search_locations))).parent
    return [f"-Igoogle/{each}={folder / each}" for each in SHARED if (folder / each).is_dir()]


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    main()
