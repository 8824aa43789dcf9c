"""CUE beyond the built-in evaluator: the program that CUE_BINARY names decides, if there is one."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final

from kernel.complaints import Complaint
from kernel.cue import CueError
from kernel.reading.tree import Tree
from sync_stack.core.shaping.errors import ShapingError
from sync_stack.formats import formats

TIMEOUT_S: Final = 15
_MAX_OUTPUT: Final = 16 * 2**20
_SHOWN: Final = 500


def export(binary: str, path: Path) -> Tree:
    """`cue export` of a file, with a clean environment and no registry. Raises CueError."""
    command = [binary, "export", "--out", "json", path.name]
    clean = {"PATH": "/usr/bin:/bin", "CUE_REGISTRY": "none", "HOME": "/nonexistent"}
    clean |= {"CUE_CACHE_DIR": "/nonexistent"}
    folder = path.absolute().parent
    try:
        done = subprocess.run(  # noqa: S603 - the operator names the program
            command, cwd=folder, env=clean, capture_output=True, timeout=TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise _error(path, f"{binary} took more than {TIMEOUT_S} s") from None
    except OSError as error:
        raise _error(path, f"{binary}: {error.strerror}") from None
    if done.returncode:
        said = " ".join(done.stderr.decode(errors="replace").split())[:_SHOWN]
        raise _error(path, f"{binary}: {said or done.returncode}")
    if len(done.stdout) > _MAX_OUTPUT:
        raise _error(path, f"{binary}: more than {_MAX_OUTPUT} bytes")
    return _tree(done.stdout, path)


def _tree(output: bytes, path: Path) -> Tree:
    try:
        return formats["json"].parse(output, file=str(path))
    except ShapingError as error:
        raise _error(path, f"the output is no JSON: {error.detail}") from None


def _error(path: Path, message: str) -> CueError:
    return CueError([Complaint(file=str(path), code="unsupported_cue", message=message)])
