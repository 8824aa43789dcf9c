"""The official `cue` program for files that use more of the language than the built-in reader."""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from cue.faults import MAX_BYTES, MAX_NESTING, Broken, Fault, broken_at
from readers import Unreadable
from readers.json import read_json
from readers.tree import Kind, Tree

TIMEOUT_S: Final = 15.0
_MOST_FAULTS: Final = 50
_PLACE: Final = re.compile(r"^\s+(\S*?):(\d+):(\d+)", re.MULTILINE)
_PACKAGE: Final = re.compile(r"^\s*package\s+([A-Za-z_$][\w$]*)", re.MULTILINE)
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_CONFIG: Final = re.compile(r"^#Config\b", re.MULTILINE)
_PATH: Final = re.compile(
    r'^((?:"(?:[^"\\]|\\.)*"|[^\s:".]+)(?:\.(?:"(?:[^"\\]|\\.)*"|[^\s:".]+))*):'
)


@dataclass(frozen=True, slots=True)
class Program:
    """The program by its path; runs at most 15 s, without environment, registry or network."""

    path: str

    def export(self, text: str, file: str) -> Tree:
        """Return the output of `cue export --out json` as a tree, or raise Broken.

        If `file` is the path of that very text, the program runs in its folder, so that the module
        and the package count. The error is the first line of the program's output.
        """
        at = Path(file)
        if _holds(at, text):
            return self._export(at.resolve().parent, at.name, _instance(at, text))
        with tempfile.TemporaryDirectory(prefix="partita-cue-") as folder:
            (Path(folder) / "config.cue").write_text(text)
            return self._export(Path(folder), "config.cue", "config.cue")

    def vet(self, schema: str, value: Tree) -> list[Fault]:
        """Return the faults by `trace`, without values; raise Broken for a bad schema."""
        definition = ["-d", "#Config"] if _CONFIG.search(schema) else []
        with tempfile.TemporaryDirectory(prefix="partita-cue-") as name:
            folder = Path(name)
            (folder / "schema.cue").write_text(schema)
            (folder / "value.json").write_text(_json(value))
            read = self._run(["eval", "schema.cue"], folder)
            if read.returncode:
                raise _diagnostic(read.stderr.decode(errors="replace"), "schema.cue")
            done = self._run(["vet", "-c", "-E", *definition, "schema.cue", "value.json"], folder)
        if not done.returncode:
            return []
        said = done.stderr.decode(errors="replace")
        return list(_faults(said))[:_MOST_FAULTS] or [_breaks(())]

    def _export(self, folder: Path, file: str, instance: str) -> Tree:
        done = self._run(["export", "--out", "json", instance], folder)
        if done.returncode:
            raise _diagnostic(done.stderr.decode(errors="replace"), file)
        if len(done.stdout) > MAX_BYTES:
            raise broken_at(
                1, 1, f"cue export wrote more than {MAX_BYTES} bytes", "unsupported_cue"
            )
        try:
            return _tree(read_json(done.stdout, max_bytes=MAX_BYTES, max_depth=MAX_NESTING))
        except Unreadable as error:
            raise broken_at(1, 1, f"cue export: {error.reason}", "unsupported_cue") from None

    def _run(self, words: list[str], folder: Path) -> subprocess.CompletedProcess[bytes]:
        with tempfile.TemporaryDirectory(prefix="partita-cue-home-") as home:
            environment = {
                "HOME": home,
                "PATH": "/usr/bin:/bin",
                "CUE_REGISTRY": "none",
                "CUE_CACHE_DIR": home,
                "TMPDIR": home,
            }
            try:
                return subprocess.run(  # noqa: S603 - the operator's CUE_BINARY, no shell
                    [self.path, *words],
                    cwd=folder,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    timeout=TIMEOUT_S,
                    check=False,
                )
            except subprocess.TimeoutExpired:
                message = f"cue {words[0]} took more than {TIMEOUT_S:g} s"
                raise broken_at(1, 1, message, "unsupported_cue") from None
            except OSError as error:
                message = f"CUE_BINARY cannot be run: {error.strerror}"
                raise broken_at(1, 1, message, "unsupported_cue") from None


def is_of_package(text: str, file: str) -> bool:
    """Whether a file's names may be declared in another file of its package."""
    at, package = Path(file), _PACKAGE.search(text)
    if package is None or not _holds(at, text):
        return False
    others = (path for path in at.resolve().parent.glob("*.cue") if path.name != at.name)
    return any(_package_of(path) == package[1] for path in others)


def _package_of(path: Path) -> str:
    try:
        with path.open(errors="replace") as file:
            found = _PACKAGE.search(file.read(2**16))
    except OSError:
        return ""
    return found[1] if found else ""


def _holds(path: Path, text: str) -> bool:
    """Whether a path is a file with this very text; the caller may have read it otherwise."""
    try:
        return path.is_file() and path.read_bytes().decode("utf-8-sig") == text
    except (OSError, ValueError):
        return False


def _instance(path: Path, text: str) -> str:
    """The file alone, or the package that it is a part of."""
    package = _PACKAGE.search(text)
    if package is None or not is_of_package(text, str(path)):
        return f"./{path.name}"
    return f".:{package[1]}"


def _diagnostic(output: str, file: str) -> Broken:
    places = [place for place in _PLACE.finditer(output) if Path(place[1]).name == file]
    line, column = (int(places[0][2]), int(places[0][3])) if places else (1, 1)
    said = output.strip().splitlines()[0][:300] if output.strip() else "no reason given"
    return broken_at(line, column, f"cue export: {said}", "conflict")


def _faults(output: str) -> Iterator[Fault]:
    for line in output.splitlines():
        found = _PATH.match(line)
        if found is not None:
            parts = re.findall(r'"(?:[^"\\]|\\.)*"|[^.]+', found[1])
            yield _breaks(
                tuple(
                    json.loads(part) if part.startswith('"') else part
                    for part in parts
                    if not part.startswith("#Config")
                )
            )


def _breaks(trace: tuple[str, ...]) -> Fault:
    return Fault(1, 1, "conflict", "does not fit", ".".join(trace), trace)


def _json(value: Tree) -> str:
    match value.kind:
        case Kind.MAP:
            members = (f"{json.dumps(key)}: {_json(item)}" for key, item in value.pairs.items())
            return "{" + ", ".join(members) + "}"
        case Kind.LIST:
            return f"[{', '.join(map(_json, value.items))}]"
        case Kind.NUMBER:
            return value.text if _NUMBER.fullmatch(value.text) else json.dumps(value.text)
        case _:
            return json.dumps(value.plain())


def _tree(value: Any) -> Tree:
    if isinstance(value, dict):
        return Tree(kind=Kind.MAP, pairs={key: _tree(item) for key, item in value.items()})
    if isinstance(value, list):
        return Tree(kind=Kind.LIST, items=tuple(_tree(item) for item in value))
    return _scalar(value)


def _scalar(value: Any) -> Tree:
    match value:
        case None:
            return Tree(kind=Kind.NULL)
        case bool():
            return Tree(kind=Kind.BOOL, text=str(value).lower())
        case str():
            return Tree(kind=Kind.STRING, text=value)
        case _:
            return Tree(kind=Kind.NUMBER, text=repr(value))
