"""The interpreters of the scripts that steps run, by the ending of the file's name.

Suites are checked against this table, settings take the default images from it, and workers the
commands. The image of a step replaces the default one; it must hold the command.
"""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Final, NamedTuple


class Interpreter(NamedTuple):
    """`command` comes before the path of the script."""

    command: tuple[str, ...]
    image: str


INTERPRETERS: Final[dict[str, Interpreter]] = {
    "sh": Interpreter(("sh",), "alpine:3.20"),
    "bash": Interpreter(("bash",), "bash:5.2"),
    "py": Interpreter(("python3",), "python:3.12-alpine"),
    "js": Interpreter(("node",), "node:22-alpine"),
    "mjs": Interpreter(("node",), "node:22-alpine"),
    "ts": Interpreter(("node", "--experimental-strip-types"), "node:22-alpine"),
    "rb": Interpreter(("ruby",), "ruby:3.3-alpine"),
    "go": Interpreter(("go", "run"), "golang:1.23-alpine"),
    "sql": Interpreter(("psql", "-X", "-v", "ON_ERROR_STOP=1", "-f"), "postgres:16-alpine"),
    "bats": Interpreter(("bats",), "bats/bats:1.11.0"),
    "hurl": Interpreter(("hurl", "--test"), "ghcr.io/orange-opensource/hurl:5.0.1"),
    "k6": Interpreter(("k6", "run"), "grafana/k6:0.54.0"),
}
_GO_TEST: Final = ("go", "test", "-v")
_K6: Final = (".k6.js", ".k6.ts")


def interpreter_name(path: str) -> str:
    """Return the key in `INTERPRETERS` for a file, `sh` without an extension; it may be unknown."""
    if path.lower().endswith(_K6):
        return "k6"
    return PurePosixPath(path).suffix[1:].lower() or "sh"


def script_command(path: str, image: str = "") -> tuple[str, ...]:
    """Return the command of a script without its path; `image` is the one that the step names.

    The image of k6 holds no Node.js, so JavaScript is for k6 there. Raise KeyError for an unknown
    extension.
    """
    name = interpreter_name(path)
    if name in ("js", "ts") and image_name(image) == "k6":
        name = "k6"
    if name == "go" and path.endswith("_test.go"):
        return _GO_TEST
    return INTERPRETERS[name].command


def image_name(image: str) -> str:
    """Return `k6` for `docker.io/grafana/k6:0.54.0@sha256:…`."""
    return image.partition("@")[0].rpartition("/")[2].partition(":")[0]


def unknown_extension(path: str) -> str:
    """Return the sentence for a script that no interpreter is known for; "" if there is one."""
    name = interpreter_name(path)
    if name in INTERPRETERS:
        return ""
    known = ", ".join(f".{each}" for each in INTERPRETERS)
    return (
        f'no interpreter for ".{name}" files; known: {known} and none. For another one, write '
        f'image="…" and command=["program", "{path}"]'
    )
