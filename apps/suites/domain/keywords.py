"""The keywords that several node kinds share (reference: control-plane 7.3)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import PurePosixPath
from typing import Final

from apps.suites.domain import values
from apps.suites.domain.calls import SCRIPT_FOLDERS, Keyword, Rules
from apps.suites.domain.mock_keywords import expected_calls, mock_references
from apps.suites.domain.problems import TopologyProblem
from kernel.scripts import unknown_extension


def keyword(name: str, meaning: str, read: Callable[[object, str], object]) -> Keyword:
    """Return a keyword whose values are read in the same way in every installation."""
    return Keyword(name=name, meaning=meaning, read=lambda value, where, _: read(value, where))


def script_in(folder: str) -> Keyword:
    """Return the keyword `file` of a kind whose scripts are in this folder of the suite."""

    def read(value: object, where: str, rules: Rules) -> str:
        return _script(value, where, folder, rules["files"])

    meaning = f"a script, by default in the folder of its kind: {', '.join(SCRIPT_FOLDERS)}"
    return Keyword(name="file", meaning=meaning, read=read)


def _script(value: object, where: str, folder: str, files: list[str]) -> str:
    """Return the package path of a script that is named with or without its folder."""
    name = values.text(value, where, empty=False)
    if name.startswith("/") or ".." in name.split("/"):
        values.invalid(where, f'"{name}" must be a path inside the suite')
    path = str(PurePosixPath(name))
    if problem := unknown_extension(path):
        values.invalid(where, problem)
    return named_file(path, where, folder, files)


def named_file(path: str, where: str, folder: str, files: list[str]) -> str:
    """Return the package path of a file that is named with or without its folder.

    Raise TopologyProblem `file_not_found`.
    """
    candidates = [path] if path.split("/", maxsplit=1)[0] in SCRIPT_FOLDERS else []
    candidates.append(f"{folder}/{path}")
    for candidate in candidates:
        if candidate in files:
            return candidate
    raise TopologyProblem("file_not_found", f"{where}: the suite has no file {candidates[0]}")


ANY: Final = (
    keyword("name", "the id of the node", values.node_name),
    keyword("after", "nodes, ids or lists of them that must be healthy first", values.references),
    keyword("on_failure", "run only if one of these nodes failed", values.references),
    keyword(
        "continue_on_failure",
        "a failure of this node does not fail the run, and dependents continue",
        values.flag,
    ),
    keyword("env", "strings, numbers, booleans", values.environment),
)


def _timeout(value: object, where: str, rules: Rules) -> int:
    return values.duration_ms(value, where, high_ms=rules["maxTimeoutMs"])


TIMEOUT: Final = Keyword(
    name="timeout",
    meaning='`"90s"`, `"2m"`, or seconds; for the whole attempt except the image pull',
    read=_timeout,
)
CONTAINER: Final = (
    *ANY,
    keyword("image", "the image of the container", values.image),
    keyword("command", "the program and its arguments", values.command),
    keyword("commands", "shell lines for `sh -e`", values.texts),
    TIMEOUT,
    keyword(
        "retries",
        "0–10 further attempts, after 1 s, 2 s, 4 s …; for a service also after it was healthy",
        lambda value, where: values.whole(value, where, low=0, high=values.MAX_RETRIES),
    ),
    Keyword(
        name="resources",
        meaning='`{"cpu": "500m", "memory": "256Mi"}`',
        read=lambda value, where, rules: values.resources(
            value, where, max_cpu=rules["maxCpu"], max_memory=rules["maxMemory"]
        ),
    ),
    keyword("expect_logs", "texts that the output must contain", values.text_or_texts),
    keyword("fail_on_logs", "texts that fail the step in its output", values.text_or_texts),
    keyword(
        "exports",
        'files to keep, as with `node.export(path, format="junit")`: [Exports](#exports)',
        values.exports,
    ),
)
ENDING: Final = (
    *CONTAINER,
    keyword(
        "idempotent",
        "may run again if its worker is lost, or if a service it ran against is replaced",
        values.flag,
    ),
    keyword(
        "expect_exit",
        "the exit code of a success, by default 0",
        lambda value, where: values.whole(value, where, low=0, high=values.MAX_EXIT),
    ),
    keyword(
        "reset_mocks",
        "mocks whose state is emptied before the step; of an imported suite, all its mocks",
        mock_references,
    ),
    keyword(
        "expect_calls",
        "calls that mocks must have got when the step ends, each reported as a test: "
        "[Expected calls](#expected-calls)",
        expected_calls,
    ),
)
