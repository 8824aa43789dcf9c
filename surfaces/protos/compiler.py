"""Compiles the protos of a suite in a child process within limits; what it made is kept by digest.

What is in a suite is anybody's: it never raises for it, and says in `problems` what is wrong.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
import signal
import subprocess
import sys
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import Final

from surfaces.protos.advice import with_advice
from surfaces.protos.descriptors import ProtoProblem, Protos, read_descriptors

logger: Final = logging.getLogger("partita.surfaces")

FOLDER: Final = "api/"
MAX_FILES: Final = 2_000
MAX_TEXT: Final = 8 * 2**20
MAX_SET: Final = 16 * 2**20
MAX_PROBLEMS: Final = 100
MAX_SAID: Final = 256 * 2**10  # bytes of protoc's words
MAX_DETAIL: Final = 400
MEMORY: Final = 512 * 2**20
CPU_S: Final = 5
WALL_S: Final = 15.0
ATTEMPTS: Final = 2  # where the child was killed from outside, or could not be started
KEPT: Final = 64
MAX_KEPT: Final = 16 * 2**20  # bytes of the descriptors that are kept
_NAME: Final = re.compile(r"(?:[A-Za-z0-9_][A-Za-z0-9_.-]*/)*[A-Za-z0-9_][A-Za-z0-9_.-]*\.proto")
_SAID: Final = re.compile(r"(?P<file>.+?\.proto)(?::(?P<line>\d+):(?P<column>\d+))?: (?P<text>.+)")
_CHILD: Final = Path(__file__).with_name("child.py")
_kept: Final[OrderedDict[str, Protos]] = OrderedDict()
_compiling: Final = threading.Lock()  # one at a time, and none twice


class CompilerAway(OSError):
    """The child process was killed from outside, or got no time."""


def compile_protos(files: Mapping[str, bytes]) -> Protos:
    """Return the services of the protos below `api/`, from a process the first time."""
    texts, refused = _protos_in(files)
    if not texts:
        return Protos(problems=refused)
    if len(texts) > MAX_FILES or sum(map(len, texts.values())) > MAX_TEXT:
        return _failure("the suite has too many or too large .proto files")
    digest = hashlib.sha256(json.dumps([sorted(texts.items()), *map(str, refused)]).encode())
    key = digest.hexdigest()
    with _compiling:
        found = _kept.get(key) or _compile(texts, refused)
        if found is None:
            return _failure("the compiler of .proto files was killed or could not be started")
        _kept[key] = found
        _kept.move_to_end(key)
        while len(_kept) > KEPT or sum(each.size for each in _kept.values()) > MAX_KEPT:
            _kept.popitem(last=False)
        return found


def _protos_in(files: Mapping[str, bytes]) -> tuple[dict[str, str], tuple[ProtoProblem, ...]]:
    """Return the protos by their path below `api/`, and those whose names protoc may not get."""
    found = {
        path.removeprefix(FOLDER): content
        for path, content in files.items()
        if path.startswith(FOLDER) and path.lower().endswith(".proto")
    }
    refused = [name for name in sorted(found) if not _NAME.fullmatch(name)]
    texts = {
        name: content.decode(errors="replace")
        for name, content in found.items()
        if _NAME.fullmatch(name)
    }
    detail = "the path of a .proto file has letters, digits, _, . and - only, and ends with .proto"
    return texts, tuple(ProtoProblem(detail=detail, file=each) for each in refused[:MAX_PROBLEMS])


def _failure(detail: str) -> Protos:
    return Protos(problems=(ProtoProblem(detail=detail),))


def _compile(texts: Mapping[str, str], refused: tuple[ProtoProblem, ...]) -> Protos | None:
    """Return what protoc makes of the files; None if it is away."""
    for _ in range(ATTEMPTS):
        try:
            with tempfile.TemporaryDirectory(prefix="partita-protos-") as folder:
                ended = _run(texts, folder)
                said = _read(Path(folder, "problems"), MAX_SAID).decode(errors="replace")
                content = _read(Path(folder, "set"), MAX_SET + 1)
        except OSError as error:
            logger.warning("The compiler of protos is away: %s", error)
            continue
        problems = (*refused, *_problems(said, texts))[:MAX_PROBLEMS]
        if not ended:
            limits = f"{CPU_S} s and {MEMORY // 2**20} MiB"
            return _failure(f"the .proto files cannot be compiled within {limits}")
        if len(content) > MAX_SET or not (content or problems):
            return _failure("the .proto files declare too much")
        return read_descriptors(content, texts, problems)
    return None


def _run(texts: Mapping[str, str], folder: str) -> bool:
    """Run the compiler; return whether it ended by itself. Raise CompilerAway."""
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
    except subprocess.TimeoutExpired as error:  # its processor time ends before
        raise CompilerAway(f"no end within {WALL_S} s") from error
    if ended.returncode in (-signal.SIGKILL, -signal.SIGTERM):
        raise CompilerAway(f"signal {-ended.returncode}")
    return ended.returncode == 0


def _read(path: Path, limit: int) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(limit)
    except FileNotFoundError:
        return b""


def _problems(said: str, texts: Mapping[str, str]) -> tuple[ProtoProblem, ...]:
    """Return what protoc says about the files, once each: its rounds repeat it."""
    found: dict[ProtoProblem, None] = {}
    for line in said.splitlines():
        match = _SAID.fullmatch(line)
        if match and match["file"] in texts and not match["text"].startswith("warning: "):
            line_number, column = (int(match[each] or 0) for each in ("line", "column"))
            detail = match["text"].strip()[:MAX_DETAIL]
            found[
                ProtoProblem(detail=detail, file=match["file"], line=line_number, column=column)
            ] = None
    return tuple(with_advice(each, texts) for each in islice(found, MAX_PROBLEMS))
