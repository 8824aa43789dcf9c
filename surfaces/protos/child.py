"""The compiler process: it reads JSON {path below api/: text} from stdin and writes descriptors.

It is run by path with `python -I` in an empty folder. It sets its limits before it reads a file:
protoc is a C++ program, and the files are anybody's. One file that imports all others is compiled,
so that protoc tells what is wrong in each; what has errors is left out of the next round, so that a
broken file costs itself and what imports it. The set is written to `set`, what protoc says to
`problems`.
"""

from __future__ import annotations

import importlib.util
import json
import os
import posixpath
import re
import resource
import sys
from pathlib import Path
from typing import Final

from grpc_tools import _protoc_compiler

NICENESS: Final = 10
ROUNDS: Final = 8
# Of google/, beside protobuf itself: how it is imported, and its name in the package.
SHARED: Final = {
    **{each: each for each in ("api", "longrunning", "rpc", "type", "logging", "gapic")},
    **{
        f"cloud/{each}.proto": f"cloud/{each}.proto"
        for each in ("common_resources", "extended_operations", "location/locations")
    },
    "longrunning/operations.proto": "longrunning/operations_proto.proto",
}
OWN: Final = "google/protobuf/"
OPTIONS: Final = ("annotations", "client", "field_behavior", "field_info", "resource", "routing")
SOURCES: Final = "sources"
ALL: Final = "~all.proto"  # no suite's file has such a name
_BROKEN: Final = re.compile(r"^(.+?\.proto)(?::\d+:\d+)?: (?!warning:)", re.MULTILINE)
# Comments and other strings are matched too, so that no import is found in them.
_IMPORT: Final = re.compile(
    r"//[^\n]*+|/\*(?:[^*]++|\*(?!/))*+(?:\*/)?"
    r"|\bimport\s++(?:(?:public|weak|option)\s++)?(?P<name>\"[^\"\\\n]*+\"|'[^'\\\n]*+')"
    r"|\"(?:[^\"\\\n]++|\\.)*+\"?|'(?:[^'\\\n]++|\\.)*+'?"
)


def main() -> None:
    memory, seconds, size = map(int, sys.argv[1:])
    os.nice(NICENESS)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    with Path("problems").open("wb") as problems:
        os.dup2(problems.fileno(), 2)
    names = write_sources(json.load(sys.stdin.buffer))
    os.chdir(SOURCES)
    for _ in range(ROUNDS):
        if not names or compile_files(names):
            return
        said = Path("../problems").read_text(encoding="utf-8", errors="replace")
        broken = set(_BROKEN.findall(said))
        if broken.isdisjoint(names):
            return
        names = [name for name in names if name not in broken]


def write_sources(texts: dict[str, str]) -> list[str]:
    """Write the files below SOURCES; return their names.

    A copy of protobuf's own files is left out: protoc has them, and takes no type twice.
    """
    names = sorted(name for name in texts if OWN not in name)
    ends: dict[str, list[str]] = {}
    for name in names:
        for at in (at for at, mark in enumerate(name) if mark == "/"):
            ends.setdefault(name[at + 1 :], []).append(name)
    for name in names:

        def with_full_import(found: re.Match[str], folder: str = posixpath.dirname(name)) -> str:
            if not found["name"]:
                return found[0]
            full = full_import(folder, found["name"][1:-1], texts, ends)
            return found[0].replace(found["name"], json.dumps(full, ensure_ascii=False))

        text = _IMPORT.sub(with_full_import, with_options(name, texts[name]))
        place = Path(SOURCES, name)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, encoding="utf-8", newline="")
    return names


def with_options(name: str, text: str) -> str:
    """Return a text that imports the options of Google's APIs if it has some.

    protobuf.js, which many files are written for, asks for no import.
    """
    if "(google.api." not in text or "google/api/" in name:
        return text
    wanted = (f'"google/api/{each}.proto"' for each in OPTIONS)
    return text + "".join(f"\nimport {each};" for each in wanted if each not in text)


def full_import(folder: str, name: str, texts: dict[str, str], ends: dict[str, list[str]]) -> str:
    """Return the file of an import: from its folder outwards, then the only one that ends so."""
    if name.startswith(OWN):
        return name
    while True:
        candidate = posixpath.normpath(posixpath.join(folder, name))
        if candidate in texts:
            return candidate
        if not folder:
            break
        folder = posixpath.dirname(folder)
    found = ends.get(name, ())
    return found[0] if len(found) == 1 else name


def compile_files(names: list[str]) -> bool:
    """Compile the files, and what they import, to one set; return whether protoc could."""
    imports = "".join(f'import public "{name}";\n' for name in names)
    Path(ALL).write_text(f'syntax = "proto3";\n{imports}', encoding="utf-8")
    include = Path(_protoc_compiler.__file__).with_name("_proto")
    arguments = ["protoc", "-I.", *shared_folders(), f"-I{include}", "--include_imports",
                 "--include_source_info", "--descriptor_set_out=../set", ALL]  # fmt: skip
    return bool(_protoc_compiler.run_main([each.encode() for each in arguments]) == 0)


def shared_folders() -> list[str]:
    """Return where the common files of Google's APIs are, if they are installed."""
    found = importlib.util.find_spec("google.api")
    if found is None or not found.submodule_search_locations:
        return []
    folder = Path(next(iter(found.submodule_search_locations))).parent
    return [
        f"-Igoogle/{name}={folder / file}"
        for name, file in SHARED.items()
        if (folder / file).exists()
    ]


if __name__ == "__main__":
    main()
