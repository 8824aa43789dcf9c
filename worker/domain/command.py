"""From a node to the program that runs: image, entrypoint, arguments.

(reference: control-plane 14.2)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final

from worker.domain.step_spec import StepNode

INTERPRETERS: Final[dict[str, tuple[str, ...]]] = {
    "sh": ("sh",),
    "bash": ("bash",),
    "py": ("python3",),
    "js": ("node",),
    "mjs": ("node",),
    "ts": ("node", "--experimental-strip-types"),
    "rb": ("ruby",),
}
_FOLDERS: Final = {"service": "services", "task": "tasks", "test": "tests"}


class CommandInvalid(ValueError):
    """The file's extension names no known interpreter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitProgram:
    """`entrypoint` None: the image's own. `in_work_directory`: else in the image's folder."""

    entrypoint: tuple[str, ...] | None = None
    arguments: tuple[str, ...] = ()
    in_work_directory: bool = False

    @property
    def argv(self) -> tuple[str, ...]:
        return (self.entrypoint or ()) + self.arguments


def program(node: StepNode) -> UnitProgram:
    """Raises CommandInvalid for a file with an unknown extension."""
    if node.file:
        script = script_path(node)
        return UnitProgram(
            entrypoint=(*INTERPRETERS[extension(script)], script), in_work_directory=True
        )
    if node.commands:
        return UnitProgram(entrypoint=("sh", "-e", "-c", "\n".join(node.commands)))
    return UnitProgram(arguments=node.command)


def image(node: StepNode, defaults: Mapping[str, str]) -> str:
    """The declared image, else the default of the file's extension; empty when there is none."""
    if node.image:
        return node.image
    if node.file:
        return defaults.get(extension(script_path(node)), "")
    return defaults.get("sh", "") if node.commands else ""


def script_path(node: StepNode) -> str:
    """Relative to the work directory; the folder of the node's kind is added when left out."""
    path = PurePosixPath(node.file)
    if path.parts[0] in _FOLDERS.values():
        return str(path)
    return str(_FOLDERS.get(node.kind, "tasks") / path)


def extension(path: str) -> str:
    suffix = PurePosixPath(path).suffix.removeprefix(".") or "sh"
    if suffix not in INTERPRETERS:
        known = ", ".join(f".{name}" for name in INTERPRETERS)
        raise CommandInvalid(f"{path}: no interpreter for .{suffix}; known: {known}")
    return suffix
