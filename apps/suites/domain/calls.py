"""The calls of suite.star, their keywords and their nodes (reference: control-plane 7.2, 7.3).

This module runs in the evaluator's child process and may import only light modules.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import PurePosixPath
from typing import Any, Final

from apps.suites.domain import readiness, values
from apps.suites.domain.problems import TopologyProblem

Node = dict[str, Any]
Reader = Callable[[object, str], Any]

LOG_LEVELS: Final = ("info", "warn", "error", "debug")
TRAFFIC_VARIANTS: Final = (
    "smoke", "baseline", "stress", "spike", "soak", "scalability", "step", "wave", "staged",
    "constant_throughput", "constant_pacing", "open_model",
)  # fmt: skip
KIND_OF: Final = {
    "service.run": "service",
    "task.run": "task",
    "test.run": "test",
    **{f"log.{level}": "log" for level in LOG_LEVELS},
}
NOT_AVAILABLE: Final = (
    "service.mock",
    "service.wiremock",
    "service.prism",
    "service.custom",
    "mock.serve",
    "suite.run",
    *(f"traffic.{variant}" for variant in TRAFFIC_VARIANTS),
)
SCRIPT_FOLDERS: Final = {"service": "services", "task": "tasks", "test": "tests"}
INTERPRETED: Final = ("sh", "bash", "py", "js", "mjs", "ts", "rb")
_ALIASES: Final = {"id": "name", "name_or_id": "name"}
_CONTAINER: Final = "service task test"
_ENDING: Final = "task test"
_ANY: Final = "service task test log"
APPLIES_TO: Final = {
    "name": _ANY,
    "after": _ANY,
    "on_failure": _ANY,
    "continue_on_failure": _ANY,
    "timeout": _CONTAINER,
    "retries": _CONTAINER,
    "idempotent": _ENDING,
    "env": _ANY,
    "image": _CONTAINER,
    "command": _CONTAINER,
    "commands": _CONTAINER,
    "file": _CONTAINER,
    "ports": "service",
    "ready": "service",
    "resources": _CONTAINER,
    "reset_mocks": "test",
    "expect_exit": _ENDING,
    "expect_logs": _CONTAINER,
    "fail_on_logs": _CONTAINER,
    "exports": _CONTAINER,
    "message": "log",
}


class Rules:
    """The limits and defaults of the installation, and the package's files."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        self.max_nodes: int = given["maxNodes"]
        self.max_timeout_ms: int = given["maxTimeoutMs"]
        self.default_timeout_ms: int = given["defaultTimeoutMs"]
        self.max_memory: int = given["maxMemory"]
        self.max_cpu: float = given["maxCpu"]
        self.default_images: dict[str, str] = given["defaultImages"]
        self.files = frozenset(given["files"])


def known_keywords(kind: str) -> list[str]:
    return sorted(keyword for keyword, kinds in APPLIES_TO.items() if kind in kinds.split())


def read_call(call: str, args: list[Any], kwargs: Mapping[str, Any], rules: Rules) -> Node:
    """Return the node of a call: wire keys, `name` only when given, references unresolved.

    Raise TopologyProblem without a position.
    """
    if call in NOT_AVAILABLE:
        raise TopologyProblem("unsupported_node", f"{call} is not available yet")
    kind, variant = KIND_OF[call], call.rpartition(".")[2]
    given = _keywords(call, kind, args, kwargs)
    readers = _readers(kind, rules)
    read = {key: readers[key](value, f"{call}: {key}") for key, value in given.items()}
    programs = [key for key in ("command", "commands", "file") if read.get(key)]
    if len(programs) > 1:
        values.invalid(call, f"only one of {', '.join(programs)} may be set")
    if "timeout" in read and "timeoutMs" in read.get("ready", {}):
        values.invalid(call, "timeout is short for ready.timeout; set only one of them")
    return _node(kind, variant, read, rules)


def _keywords(
    call: str, kind: str, args: list[Any], kwargs: Mapping[str, Any]
) -> dict[str, object]:
    first = "message" if kind == "log" else "name"
    if len(args) > 1:
        raise TopologyProblem(
            "wrong_type", f"{call} takes one positional argument ({first}), not {len(args)}"
        )
    given: dict[str, object] = {}
    for keyword, value in [*((first, arg) for arg in args), *kwargs.items()]:
        key = _known(call, kind, keyword)
        if key in given:
            values.invalid(f"{call}: {key}", "set twice")
        given[key] = value
    return given


def _known(call: str, kind: str, keyword: str) -> str:
    key = _ALIASES.get(keyword, keyword)
    if kind not in APPLIES_TO.get(key, "").split():
        known = ", ".join(known_keywords(kind))
        raise TopologyProblem(
            "unknown_keyword", f'{call}: unknown keyword "{keyword}"; known: {known}'
        )
    return key


def _readers(kind: str, rules: Rules) -> dict[str, Reader]:
    high_ms = rules.max_timeout_ms
    return {
        "name": values.node_name,
        "after": values.references,
        "on_failure": values.references,
        "continue_on_failure": values.flag,
        "timeout": lambda value, where: values.duration_ms(value, where, high_ms=high_ms),
        "retries": lambda value, where: values.whole(value, where, low=0, high=values.MAX_RETRIES),
        "idempotent": values.flag,
        "env": values.environment,
        "image": values.image,
        "command": values.command,
        "commands": values.texts,
        "file": lambda value, where: _script(value, where, kind, rules.files),
        "ports": values.ports,
        "ready": lambda value, where: readiness.read(value, where, max_timeout_ms=high_ms),
        "resources": lambda value, where: values.resources(
            value, where, max_cpu=rules.max_cpu, max_memory=rules.max_memory
        ),
        "reset_mocks": values.mock_references,
        "expect_exit": lambda value, where: values.whole(value, where, low=0, high=values.MAX_EXIT),
        "expect_logs": values.text_or_texts,
        "fail_on_logs": values.text_or_texts,
        "exports": values.exports,
        "message": values.text,
    }


def _script(value: object, where: str, kind: str, files: frozenset[str]) -> str:
    """Return the package path of a script that is named with or without its folder."""
    name = values.text(value, where, empty=False)
    if name.startswith("/") or ".." in name.split("/"):
        values.invalid(where, f'"{name}" must be a path inside the suite')
    path = str(PurePosixPath(name))
    extension = PurePosixPath(path).suffix[1:]
    if extension and extension not in INTERPRETED:
        known = ", ".join(f".{each}" for each in INTERPRETED)
        values.invalid(where, f'no interpreter for ".{extension}" files; known: {known} and none')
    named_folder = path.split("/", maxsplit=1)[0] in SCRIPT_FOLDERS.values()
    candidates = [path] if named_folder else []
    candidates.append(f"{SCRIPT_FOLDERS[kind]}/{path}")
    for candidate in candidates:
        if candidate in files:
            return candidate
    raise TopologyProblem("file_not_found", f"{where}: the suite has no file {candidates[0]}")


def _node(kind: str, variant: str, read: dict[str, Any], rules: Rules) -> Node:
    node: Node = {
        "kind": kind,
        "variant": variant,
        "after": read.get("after", []),
        "onFailure": read.get("on_failure", []),
        "continueOnFailure": read.get("continue_on_failure", False),
        "idempotent": kind == "service" or read.get("idempotent", False),
        "retries": read.get("retries", 0),
        "timeoutMs": read.get("timeout", rules.default_timeout_ms),
    }
    if kind == "log":
        node["message"] = read.get("message", "")
    if kind == "service":
        ready = readiness.completed(read.get("ready"), read.get("ports", []), read.get("timeout"))
        if ready is None:
            node["timeoutMs"] = read.get("timeout", readiness.DEFAULT_TIMEOUT_MS)
        else:
            node |= {"ready": ready, "timeoutMs": ready["timeoutMs"]}
    optional = {
        "name": read.get("name"),
        "image": read.get("image") or _default_image(read, rules.default_images),
        "resetMocks": read.get("reset_mocks"),
        "evaluation": _evaluation(kind, read),
        "artifactExports": read.get("exports"),
        **{key: read.get(key) for key in ("file", "command", "commands", "ports")},
        **{key: read.get(key) for key in ("resources", "env")},
    }
    return node | {key: value for key, value in optional.items() if value}


def _default_image(read: Mapping[str, Any], images: Mapping[str, str]) -> str | None:
    if read.get("file"):
        return images[PurePosixPath(read["file"]).suffix[1:] or "sh"]
    return images["sh"] if read.get("commands") else None


def _evaluation(kind: str, read: Mapping[str, Any]) -> dict[str, Any]:
    expected: dict[str, Any] = {}
    if kind in _ENDING.split():
        expected["expectExit"] = read.get("expect_exit", 0)
    if read.get("expect_logs"):
        expected["expectLogs"] = read["expect_logs"]
    if read.get("fail_on_logs"):
        expected["failOnLogs"] = read["fail_on_logs"]
    return expected
