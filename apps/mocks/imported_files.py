"""Files that commands write into a suite or another folder: all of them or none.

plan = plan_write(files, folder)       # nothing is written
if not plan.changed or force: write(plan)
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from kernel.errors import InvalidInput

_PLAIN = 0o644


@dataclass(slots=True)
class WritePlan:
    """What writing would do: paths in the folder by what becomes of them."""

    folder: Path
    contents: Mapping[str, bytes]
    new: list[str] = field(default_factory=list)
    same: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)


def plan_write(files: Mapping[str, bytes], folder: Path) -> WritePlan:
    """Compare the files with those that are there; raise InvalidInput for one that leads out."""
    plan = WritePlan(folder, files)
    root = folder.resolve()
    for path, content in sorted(files.items()):
        target = folder / path
        if not target.resolve().is_relative_to(root):
            raise InvalidInput(f"{target}: leads out of {folder}")
        if not target.exists():
            plan.new.append(path)
        elif target.is_file() and target.read_bytes() == content:
            plan.same.append(path)
        else:
            plan.changed.append(path)
    return plan


def write(plan: WritePlan) -> None:
    """Write what is new or changed, each file whole or not at all; raise InvalidInput."""
    for path in (*plan.new, *plan.changed):
        target = plan.folder / path
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            _replace(target, plan.contents[path])
        except OSError as error:
            raise InvalidInput(f"{target}: {error.strerror}") from None


def _replace(target: Path, content: bytes) -> None:
    with tempfile.NamedTemporaryFile(dir=target.parent, prefix=".partita-", delete=False) as file:
        scratch = Path(file.name)
        try:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
            scratch.chmod(target.stat().st_mode & 0o777 if target.exists() else _PLAIN)
            scratch.replace(target)
        except BaseException:
            scratch.unlink(missing_ok=True)
            raise
