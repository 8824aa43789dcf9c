"""Modules that suites load besides the built-in ones (reference: control-plane 7.6).

A module of the workspace is a folder `<scope>/<name>` of MODULES_DIR. A module of a registry is a
package that the lock of the suite pins by its digest.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Final

from apps.suites import conf, workspace
from apps.suites.domain.calls import ModulePackage
from apps.suites.domain.definition import Suite
from apps.suites.domain.package import TOPOLOGY_FILE
from apps.suites.evaluator.module_loading import BUILT_IN_MODULES, RUNTIME, exported_files
from apps.suites.evaluator.process import MAX_SOURCE
from kernel.ids import is_identifier

MAX_TEXT: Final = 4 * MAX_SOURCE  # of all files of a module that are evaluated
_LABEL: Final = re.compile(rb"""["']@([A-Za-z0-9._-]+)/([A-Za-z0-9._-]+)["']""")


def loadable_modules(suite: Suite) -> dict[str, ModulePackage]:
    """Return the modules that the text of a suite names, by label."""
    found = {}
    for scope, name in _named(suite):
        folder = _folder(scope, name)
        if folder.is_dir():
            found[f"@{scope}/{name}"] = read_module(name, folder)
    return found


def modules_digest(suites: Iterable[Suite]) -> str:
    """Return a value that changes with the modules that these suites load, "" without any."""
    marks = {
        f"@{scope}/{name}": workspace.state_of(_folder(scope, name)).signature
        for suite in suites
        for scope, name in _named(suite)
    }
    return hashlib.sha256(repr(sorted(marks.items())).encode()).hexdigest() if marks else ""


def read_module(name: str, folder: Path) -> ModulePackage:
    """Return the files of a module that are evaluated; never raise because of the content."""
    package = workspace.read_package(name, folder)
    return module_of(package.files, package.problem)


def module_of(files: Mapping[str, bytes], problem: str = "") -> ModulePackage:
    """Return the module in the files of a package."""
    top = {path: text for path, text in files.items() if "/" not in path and path.endswith(".star")}
    if not problem and not exported_files(top):
        problem = "it has no .star file with functions"
    if not problem:
        problem = next(
            (f"{p} is larger than 1 MiB" for p, t in top.items() if len(t) > MAX_SOURCE), ""
        )
    if not problem and sum(map(len, top.values())) > MAX_TEXT:
        problem = "its files are larger than 4 MiB"
    if problem:
        return {"files": {}, "problem": problem, "code": "package_invalid"}
    return {"files": {p: t.decode() for p, t in top.items()}, "problem": "", "code": ""}


def _named(suite: Suite) -> list[tuple[str, str]]:
    """Return scope and name of the modules that a suite may load and that are not built in."""
    return _labels(suite.package.files.get(TOPOLOGY_FILE, b""))


@lru_cache(maxsize=1024)
def _labels(text: bytes) -> list[tuple[str, str]]:
    named = {(scope.decode(), name.decode()) for scope, name in _LABEL.findall(text)}
    return sorted(
        (scope, name)
        for scope, name in named
        if name not in (RUNTIME, *BUILT_IN_MODULES) and is_identifier(scope) and is_identifier(name)
    )


def _folder(scope: str, name: str) -> Path:
    return conf.modules_dir() / scope / name
