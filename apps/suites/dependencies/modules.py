"""Modules that suites load besides the built-in ones (reference: control-plane 7.6).

A module of the workspace is a folder `<scope>/<name>` of MODULES_DIR, or of the examples. A module
of a registry is a package that the lock of the suite pins by its digest.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Final

from apps.oci import api as oci
from apps.suites import conf
from apps.suites.domain.calls import ModulePackage
from apps.suites.domain.definition import Suite
from apps.suites.domain.package import TOPOLOGY_FILE, broken_files_rule
from apps.suites.domain.problems import TopologyProblem
from apps.suites.evaluator.module_loader import (
    BUILT_IN_MODULES,
    RUNTIME,
    exported_files,
    public_names,
)
from apps.suites.evaluator.process import MAX_SOURCE, run_evaluator
from apps.suites.sources import folders
from kernel.errors import PlatformError
from kernel.ids import is_identifier
from readers.folder import state_of

MAX_TEXT: Final = 4 * MAX_SOURCE  # of all files of a module that are evaluated
UNREACHABLE: Final = "registry_unreachable"  # the code of a module that may be had later
_UNREAD: Final = ("syntax_error", "limit_exceeded")  # problems before the loads are known
_NO_NAME: Final = "nobody_exports_this"
_LABEL: Final = re.compile(rb"""["']@([A-Za-z0-9._-]+)/([A-Za-z0-9._-]+)["']""")


def loadable_modules(suite: Suite) -> dict[str, ModulePackage]:
    """Return the modules that the text of a suite names, by label."""
    found = {}
    for scope, name in _named_modules(suite):
        label, folder = f"@{scope}/{name}", _folder(scope, name)
        if pin := suite.dependencies.modules.get(label):
            found[label] = pinned_module(pin)
        elif folder.is_dir():
            found[label] = read_module(name, folder)
    return found


def loaded_labels(suite: Suite) -> list[str] | None:
    """Return the labels that a suite loads and that are not built in, None for a broken text.

    A `load` does not depend on env; the evaluation ends at the first one of a package.
    """
    named = [f"@{scope}/{name}" for scope, name in _named_modules(suite)]
    if not named:
        return []
    rules = conf.evaluation_rules(suite.package.files)
    answer = run_evaluator(suite.package.text(TOPOLOGY_FILE), env={}, rules=rules)
    problem = answer["problem"]
    if not answer["loads"] and problem and problem["code"] in _UNREAD:
        return None
    return [label for label in named if label in answer["loads"]]


def is_in_workspace(label: str) -> bool:
    """Tell whether the workspace has a module of this label."""
    scope, _, name = label.removeprefix("@").partition("/")
    return _folder(scope, name).is_dir()


def workspace_module(label: str) -> tuple[Mapping[str, bytes], TopologyProblem | None]:
    """Return the files of a module of the workspace, and why no suite could load it.

    Raise PackageNotFound.
    """
    if label not in [f"@{scope}/{name}" for scope, name in _labels(f'"{label}"'.encode())]:
        raise oci.PackageNotFound(
            f"{label[:200]!r} is not @scope/name of a module of the workspace"
        )
    if not is_in_workspace(label):
        places = " or ".join(map(str, conf.module_folders()))
        raise oci.PackageNotFound(f"there is no module {label} in {places}")
    scope, _, name = label.removeprefix("@").partition("/")
    package = folders.read_package(name, _folder(scope, name))
    module = module_of(package.files, package.problem)
    wanted = ", ".join(f'"{each}"' for each in _names_to_probe(module))
    load = f'load("{label}", {wanted})\n'
    answer = run_evaluator(load, env={}, rules=conf.evaluation_rules(()), modules={label: module})
    found = answer["problem"]
    if found is None or found["message"].startswith(f'load("{label}"): it has no "'):
        return package.files, None
    return package.files, TopologyProblem(found["code"], found["message"])


def _names_to_probe(module: ModulePackage) -> list[str]:
    """Return names whose `load` evaluates all of a module: those of two files, else an unknown one.

    A `load` needs a name, and names that two files define are refused only when they are loaded.
    """
    texts = (module["files"][path] for path in exported_files(module["files"]))
    names = Counter(name for text in texts for name in public_names(text))
    return [name for name, files in names.items() if files > 1] or [_NO_NAME]


def unreachable_module(modules: Mapping[str, ModulePackage]) -> str:
    """Return the reason why a module may be had later, "" if that is the case for none."""
    waiting = (each["problem"] for each in modules.values() if each["code"] == UNREACHABLE)
    return next(waiting, "")


def modules_digest(suites: Iterable[Suite]) -> str:
    """Return a value that changes with the modules that these suites load, "" without any."""
    marks = {_mark(suite, scope, name) for suite in suites for scope, name in _named_modules(suite)}
    return hashlib.sha256(repr(sorted(marks)).encode()).hexdigest() if marks else ""


def pinned_module(pin: str) -> ModulePackage:
    """Return a module of a registry, from the store or, at first, from the registry (20 s)."""
    _, _, digest = pin.partition("@")
    try:
        package = oci.stored_package(digest) or oci.pull(pin)
    except oci.RegistryUnreachable as error:
        return _broken_module(f"{pin}: {error.detail}", UNREACHABLE)
    except oci.DigestMismatch as error:
        return _broken_module(f"{pin}: {error.detail}", "digest_mismatch")
    except PlatformError as error:
        return _broken_module(f"{pin}: {error.detail}", "module_not_found")
    if package.artifact_type == oci.SUITE_TYPE:
        return _broken_module(f"{pin} is a suite, not a module", "module_not_found")
    path, reason = broken_files_rule(package.files, needs="")
    return module_of(package.files, f"{path} {reason}" if reason else "")


def read_module(name: str, folder: Path) -> ModulePackage:
    """Return the files of a module that are evaluated; never raise because of the content."""
    package = folders.read_package(name, folder)
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
        return _broken_module(problem, "package_invalid")
    return {"files": {p: t.decode() for p, t in top.items()}, "problem": "", "code": ""}


def _named_modules(suite: Suite) -> list[tuple[str, str]]:
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


def _broken_module(problem: str, code: str) -> ModulePackage:
    return {"files": {}, "problem": problem, "code": code}


def _mark(suite: Suite, scope: str, name: str) -> tuple[str, str]:
    """Return a label and what changes with the content of its module."""
    label = f"@{scope}/{name}"
    pin = suite.dependencies.modules.get(label)
    return label, pin or repr(state_of(_folder(scope, name)).signature)


def _folder(scope: str, name: str) -> Path:
    """Return the folder of a module, of the first place if none has it."""
    places = [folder / scope / name for folder in conf.module_folders()]
    return next((each for each in places if each.is_dir()), places[0])
