"""Readers of keyword values (reference: control-plane 7.3, 7.4).

A reader takes a value from Starlark and its name for errors, such as `task.run: timeout`. It
returns the wire form or raises TopologyProblem without a position. This module runs in the
evaluator's child process and may import only light modules.
"""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Callable
from typing import Any, Final, NoReturn, TypedDict

from apps.suites.domain.problems import TopologyProblem
from kernel.durations import format_duration, parse_bytes, parse_cpu, parse_duration_ms
from readers.diagnostics import likely_name

NODE_ID: Final = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}\Z")
MAX_RETRIES: Final = 10
MAX_EXIT: Final = 255
MAX_PORT: Final = 65535
EXPORT_ON: Final = ("success", "failure", "always")
EXPORT_FORMATS: Final = ("raw", "junit", "cobertura", "ctrf")
REPORT_FORMATS: Final = ("junit", "ctrf")  # kept of a failed step, too, unless `on` says otherwise
_MAX_EXPORT_PATH: Final = 1000  # characters
_VARIABLE: Final = re.compile(r"\$\{?[A-Za-z_]")
_PORT: Final = re.compile(r"^([1-9]\d{0,4})/(tcp|udp)\Z")
_ZERO: Final = re.compile(r"^0+(ms|s|m|h)\Z")
_STARLARK_NAMES: Final = {"NoneType": "None", "str": "string"}


class NodeReference(TypedDict, total=False):
    """A reference to another node: `node`, its index in call order, or `id`."""

    node: int
    id: str


class _ExportName(TypedDict, total=False):
    name: str


class ArtifactExport(_ExportName):
    """A file that a step exports, on the wire."""

    path: str
    on: str
    format: str
    required: bool


class Resources(TypedDict, total=False):
    """`cpu` in CPUs, `memory` in bytes."""

    cpu: float
    memory: int


class Handle:
    """A node in Starlark; `index` is its index in call order."""

    __slots__ = ("index", "kind", "label")

    def __init__(self, index: int, kind: str, label: str) -> None:
        self.index = index
        self.kind = kind
        self.label = label


class Foreign:
    """A Starlark value that no keyword accepts, such as a function."""

    __slots__ = ("type_name",)

    def __init__(self, type_name: str) -> None:
        self.type_name = type_name


def type_name(value: object) -> str:
    if isinstance(value, Foreign):
        return value.type_name
    if isinstance(value, Handle):
        return "node"
    name = type(value).__name__
    return _STARLARK_NAMES.get(name, name)


def wrong_type(where: str, expected: str, value: object) -> NoReturn:
    raise TopologyProblem("wrong_type", f"{where} must be {expected}, not {type_name(value)}")


def invalid(where: str, reason: str) -> NoReturn:
    raise TopologyProblem("invalid_value", f"{where}: {reason}")


def text(value: object, where: str, *, empty: bool = True) -> str:
    if not isinstance(value, str):
        wrong_type(where, "a string", value)
    if "\0" in value:
        invalid(where, "a NUL character is not allowed")
    if not empty and not value.strip():
        invalid(where, "must not be empty")
    return value


def flag(value: object, where: str) -> bool:
    if not isinstance(value, bool):
        wrong_type(where, "True or False", value)
    return value


def whole(value: object, where: str, *, low: int, high: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        wrong_type(where, "an int", value)
    if not low <= value <= high:
        invalid(where, f"{value} is not between {low} and {high}")
    return value


def one_of(value: object, where: str, options: tuple[str, ...]) -> str:
    word = text(value, where)
    if word not in options:
        invalid(where, f'"{word}" must be one of {", ".join(options)}')
    return word


def texts(value: object, where: str) -> list[str]:
    if not isinstance(value, list):
        wrong_type(where, "a list of strings", value)
    return [text(item, f"{where}[{index}]") for index, item in enumerate(value)]


def text_or_texts(value: object, where: str) -> list[str]:
    """Return non-empty strings; every line would contain an empty one."""
    if not isinstance(value, str | list):
        wrong_type(where, "a string or a list of strings", value)
    values = [value] if isinstance(value, str) else value
    return [text(item, where, empty=False) for item in values]


def node_name(value: object, where: str) -> str:
    name = text(value, where)
    if not NODE_ID.match(name):
        invalid(
            where,
            f'"{name}" is not a valid node id: use up to 63 letters, digits, ".", "_" and "-", '
            "starting with a letter or digit",
        )
    return name


def duration_ms(value: object, where: str, *, high_ms: int, zero: bool = False) -> int:
    if not isinstance(value, str | int | float) or isinstance(value, bool):
        wrong_type(where, 'a duration such as "30s" or seconds as a number', value)
    if zero and (value == 0 or (isinstance(value, str) and _ZERO.match(value))):
        return 0
    milliseconds: int = _parse(parse_duration_ms, value, where)
    if milliseconds > high_ms:
        invalid(where, f"{value!r} is longer than the limit of {format_duration(high_ms / 1000)}")
    return max(1, milliseconds)


def references(value: object, where: str) -> list[NodeReference]:
    """Return nodes and ids as a flat list of `{"node": index}` and `{"id": text}`."""
    if isinstance(value, Handle):
        return [{"node": value.index}]
    if isinstance(value, str):
        return [{"id": text(value, where, empty=False)}]
    if not isinstance(value, list):
        wrong_type(where, "a node, an id, or a list of them", value)
    return [reference for item in value for reference in references(item, where)]


def environment(value: object, where: str) -> dict[str, str]:
    if not isinstance(value, dict):
        wrong_type(where, "a dict", value)
    variables = {}
    for key, item in value.items():
        name = text(key, f"{where}: a name")
        if not name or "=" in name:
            invalid(where, f'"{name}" is not a valid name for an environment variable')
        variables[name] = scalar_text(item, f'{where}["{name}"]')
    return variables


def scalar_text(value: object, where: str) -> str:
    """Return a string unchanged, a number in decimal, a bool as `true` or `false`."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        if not math.isfinite(value):
            invalid(where, "must be a finite number")
        return repr(value)
    if isinstance(value, int):
        return str(value)
    if not isinstance(value, str):
        wrong_type(where, "a string, number or bool", value)
    return text(value, where)


def image(value: object, where: str) -> str:
    name = text(value, where, empty=False)
    if re.search(r"\s", name):
        invalid(where, f'"{name}" is not an image reference')
    return name


def command(value: object, where: str) -> list[str]:
    """Return the argv; a string is split as in a shell."""
    if not isinstance(value, str | list):
        wrong_type(where, "a list of strings or a string", value)
    words = (
        _parse(shlex.split, text(value, where), where)
        if isinstance(value, str)
        else texts(value, where)
    )
    if not words or not words[0]:
        invalid(where, "must name a program")
    return words


def ports(value: object, where: str) -> list[int | str]:
    """Return container ports: 80 for 80 and `"80/tcp"`, and `"53/udp"` unchanged."""
    if not isinstance(value, list):
        wrong_type(where, 'a list of ports such as 8080 or "53/udp"', value)
    return [_port(item, f"{where}[{index}]") for index, item in enumerate(value)]


def _port(value: object, where: str) -> int | str:
    if isinstance(value, str):
        match = _PORT.match(value)
        if not match or int(match[1]) > MAX_PORT:
            invalid(where, f'"{value}" is not a port such as 8080, "8080/tcp" or "53/udp"')
        return int(match[1]) if match[2] == "tcp" else value
    return whole(value, where, low=1, high=MAX_PORT)


def only_keys(value: object, where: str, known: tuple[str, ...]) -> dict[str, object]:
    if not isinstance(value, dict):
        wrong_type(where, "a dict", value)
    for key in value:
        if key not in known:
            raise TopologyProblem(
                "unknown_keyword",
                f'{where}: unknown key "{key}"; known: {", ".join(sorted(known))}'
                f"{likely_name(str(key), known)}",
            )
    return value


def resources(value: object, where: str, *, max_cpu: float, max_memory: int) -> Resources:
    given = only_keys(value, where, ("cpu", "memory"))
    wanted: Resources = {}
    if "cpu" in given:
        wanted["cpu"] = _cpu(given["cpu"], f"{where}.cpu", max_cpu)
    if "memory" in given:
        wanted["memory"] = _memory(given["memory"], f"{where}.memory", max_memory)
    return wanted


def _cpu(value: object, where: str, limit: float) -> float:
    if not isinstance(value, str | int | float) or isinstance(value, bool):
        wrong_type(where, 'a number of CPUs or a string such as "500m"', value)
    cpus: float = _parse(parse_cpu, value, where)
    if cpus > limit:
        invalid(where, f"{value} is above the limit of {limit:g}")
    return cpus


def _memory(value: object, where: str, limit: int) -> int:
    if not isinstance(value, str | int) or isinstance(value, bool):
        wrong_type(where, 'a size such as "512Mi"', value)
    size: int = _parse(parse_bytes, value, where)
    if not 0 < size <= limit:
        invalid(where, f"{value} is not between 1 byte and the limit of {limit // 2**20} MiB")
    return size


_EXPORT_KEYS: Final = ("path", "name", "on", "format", "required")


def exports(value: object, where: str) -> list[ArtifactExport]:
    if not isinstance(value, list):
        wrong_type(where, "a list of dicts", value)
    return [export(item, f"{where}[{index}]") for index, item in enumerate(value)]


def export(value: object, where: str) -> ArtifactExport:
    given = only_keys(value, where, _EXPORT_KEYS)
    if "path" not in given:
        raise TopologyProblem("missing_argument", f"{where}: path is required")
    name: _ExportName = {}
    if "name" in given:
        name["name"] = text(given["name"], f"{where}.name", empty=False)
    format_ = one_of(given.get("format", "raw"), f"{where}.format", EXPORT_FORMATS)
    default = "always" if format_ in REPORT_FORMATS else "success"
    return {
        "path": _export_path(given["path"], f"{where}.path"),
        **name,
        "on": one_of(given.get("on", default), f"{where}.on", EXPORT_ON),
        "format": format_,
        "required": flag(given.get("required", False), f"{where}.required"),
    }


def _export_path(value: object, where: str) -> str:
    """Return the path; refuse what cannot match: `..`, a variable, and what is too long."""
    path = text(value, where, empty=False)
    if len(path) > _MAX_EXPORT_PATH:
        invalid(where, f"has more than {_MAX_EXPORT_PATH} characters")
    if ".." in path.split("/"):
        invalid(where, f'"{path}" must not contain ".."')
    if _VARIABLE.match(path):
        invalid(
            where,
            f'"{path}" is not expanded; a relative path is looked for in $PARTITA_ARTIFACTS_DIR '
            "and in the directory in which the step starts",
        )
    return path


def _parse(parse: Callable[[Any], Any], value: object, where: str) -> Any:
    try:
        return parse(value)
    except (ValueError, OverflowError) as error:
        invalid(where, str(error))
