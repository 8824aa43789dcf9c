"""The official `cue` program for files that use more of the language than the built-in reader."""

from __future__ import annotations

import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Final

from kernel.cue.faults import MAX_BYTES, MAX_NESTING, Broken, broken
from kernel.reading import Unreadable
from kernel.reading.json import read_json
from kernel.reading.tree import Kind, Tree

TIMEOUT_S: Final = 15.0
_PLACE: Final = re.compile(r"config\.cue:(\d+):(\d+)")


def export(binary: str, text: str) -> Tree:
    """What `cue export --out json` makes of a file: at most 15 s, without environment or network.

    Raises Broken with what the program says first, at the place that it names.
    """
    with tempfile.TemporaryDirectory(prefix="partita-cue-") as folder:
        (Path(folder) / "config.cue").write_text(text)
        done = _run(binary, folder)
        if done.returncode:
            raise _complaint(done.stderr.decode(errors="replace"))
        if len(done.stdout) > MAX_BYTES:
            raise broken(1, 1, f"cue export wrote more than {MAX_BYTES} bytes", "unsupported_cue")
    try:
        return _tree(read_json(done.stdout, max_bytes=MAX_BYTES, max_depth=MAX_NESTING))
    except Unreadable as error:
        raise broken(1, 1, f"cue export: {error.reason}", "unsupported_cue") from None


def _run(binary: str, folder: str) -> subprocess.CompletedProcess[bytes]:
    environment = {
        "HOME": folder,
        "PATH": "/usr/bin:/bin",
        "CUE_REGISTRY": "none",
        "CUE_CACHE_DIR": folder,
        "TMPDIR": folder,
    }
    try:
        return subprocess.run(  # noqa: S603 - the operator's CUE_BINARY, no shell
            [binary, "export", "--out", "json", "config.cue"],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        message = f"cue export took more than {TIMEOUT_S:g} s"
        raise broken(1, 1, message, "unsupported_cue") from None
    except OSError as error:
        message = f"CUE_BINARY cannot be run: {error.strerror}"
        raise broken(1, 1, message, "unsupported_cue") from None


def _complaint(output: str) -> Broken:
    place = _PLACE.search(output)
    line, column = (int(place[1]), int(place[2])) if place else (1, 1)
    said = output.strip().splitlines()[0][:300] if output.strip() else "no reason given"
    return broken(line, column, f"cue export: {said}", "conflict")


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
